"""Autograd's wordings for values and views changed in place, as the releases since 0.1.12 printed them."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Iterator

NEEDED = "one of the variables needed for gradient computation has been modified by an inplace operation"
_HINTS = (
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True).",
    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False).",
    "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in "
    "question was changed in there or anywhere later. Good luck!",
)
_TYPES = (
    "torch.cuda.FloatTensor", "torch.cuda.FloatTensor", "torch.cuda.FloatTensor", "torch.FloatTensor", "torch.cuda.HalfTensor", "torch.DoubleTensor",
    "torch.cuda.BFloat16Tensor", "torch.cuda.DoubleTensor", "CUDAFloatType", "MPSFloatType", "torch.cuda.LongTensor", "CUDABoolType",
)  # fmt: skip
# Nodes by the release that named them so: ReluBackward1 (1.2 to 1.9), ReluBackward0 (since 1.10).
NODES = (
    "ReluBackward0", "ReluBackward1", "SigmoidBackward", "SigmoidBackward0", "TanhBackward", "TBackward", "AsStridedBackward0", "AsStridedBackward", "MulBackward0",
    "AddBackward0", "SubBackward0", "DivBackward0", "SoftmaxBackward", "SoftmaxBackward0", "CudnnBatchNormBackward", "NativeBatchNormBackward0", "LeakyReluBackward0",
    "ConstantPadNdBackward", "SelectBackward", "SelectBackward0", "UnsqueezeBackward0", "ViewBackward", "ViewBackward0", "ReshapeAliasBackward0", "CatBackward",
    "CatBackward0", "StackBackward0", "CopySlices", "torch::autograd::CopySlices", "ExpBackward", "SqrtBackward", "NormBackward1", "UnsafeViewBackward", "BmmBackward0",
    "TransposeBackward0", "PermuteBackward0", "IndexPutBackward0", "CloneBackward", "SliceBackward", "SliceBackward0", "HardtanhBackward1", "ThnnConv2DBackward",
    "CudnnConvolutionBackward", "ConvolutionBackward0", "MkldnnConvolutionBackward", "UpsampleBilinear2DBackward", "EluBackward", "PreluBackward", "SiluBackward0",
    "NativeLayerNormBackward", "ScatterBackward", "ExpandBackward", "PowBackward0", "ClampBackward1", "MaxBackward0", "AbsBackward", "Relu", "Sigmoid", "Tanh",
)  # fmt: skip
_VIEW_ADVICE = (
    "You should replace the inplace operation by an out-of-place one.",
    "You should replace the inplace operation.",
)


def needed(rng: random.Random) -> str:
    """Return the sentence of the releases since 1.2, which names the tensor and its versions."""
    shape = [
        rng.choice((1, 2, 4, 8, 10, 16, 32, 64, 128, 256, 512, rng.randint(3, 999))) for _ in range(rng.randint(1, 5))
    ]
    version = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, rng.randint(6, 300)))
    expected = version - 1 if rng.random() < 0.8 else rng.randrange(version)
    node = f", which is output {rng.choice((0, 0, 0, 0, 1, 2))} of {rng.choice(NODES)}," if rng.random() < 0.75 else ""
    hint = f" {rng.choice(_HINTS)}" if rng.random() < 0.85 else ""
    return f"{NEEDED}: [{rng.choice(_TYPES)} {shape}]{node} is at version {version}; expected version {expected} instead.{hint}"


def views(rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield (group, texts) about views changed in place, in the wordings of 1.5 to 2.x."""
    outputs = [f"Output {rng.randrange(3)} of {node} is a view and is being modified inplace." for node in (
        "UnbindBackward", "UnbindBackward0", "SplitBackward", "SplitBackward0", "ChunkBackward", "SplitWithSizesBackward", "UnsafeSplitBackward", "UnbindBackward0",
    )]  # fmt: skip
    several = "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace."
    yield "view_multiple", [f"{output} {several} {rng.choice(_VIEW_ADVICE)}" for output in outputs]
    functions = (
        "BackwardHookFunctionBackward",
        "BackwardHookFunction",
        "_ReduceFromModelParallelRegionBackward",
        "IdentityBackward",
        "CheckpointFunctionBackward",
    )
    custom = (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override the "
        "custom backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of "
        "the custom Function."
    )
    yield "view_custom", [f"Output 0 of {name} is a view and is being modified inplace. {custom}" for name in functions]
    created = "A view was created in {mode} mode and {is_being} modified inplace with grad mode enabled."
    old = "A view was created in no_grad mode and its base or another view of its base has been modified inplace with grad mode enabled."
    ambiguous = "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
    yield (
        "view_no_grad",
        [
            f"{created.format(mode='no_grad', is_being='is being')} {ambiguous}",
            f"{old} {ambiguous}",
            f"Output 0 of SelectBackward is a view and its base or another view of its base has been modified inplace. {several} {_VIEW_ADVICE[1]}",
            f"{created.format(mode='inference', is_being='is being')} {ambiguous.replace('no_grad', 'inference_mode')}",
        ],
    )
    yield (
        "detach_view",
        [
            "Can't detach views in-place. Use detach() instead",
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
            "gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients.",
        ],
    )
    yield (
        "overlap",
        [
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
        ],
    )
    yield (
        "saved_old",
        [
            "in-place operations can be only used on variables that don't share storage with any other variables, but detected that there are 2 objects sharing it",
            "a leaf Variable that requires grad has been used in an in-place operation.",
        ],
    )
