"""Device-side asserts of CUDA kernels, as every release since 0.1.12 printed them; this machine cannot raise them.

A failed assert prints one line per thread, and some later call raises "device-side assert triggered": people paste
the lines, the error, or both.
"""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Iterator

from corpus.library_frames import backward, cross_entropy, embedding, frame, layer_call
from corpus.message import Frame, Message
from corpus.raising import rendered

_ROOTS = (
    "/pytorch/",
    "../",
    "../",
    "/opt/conda/conda-bld/pytorch_{build}/work/",
    "/opt/pytorch/pytorch/",
    "C:\\cb\\pytorch_1000000000000\\work\\",
    "C:/w/b/windows/pytorch/",
    "C:\\actions-runner\\_work\\pytorch\\pytorch\\pytorch\\",
    "/home/conda/feedstock_root/build_artifacts/libtorch_{build}/work/",
)
_CLASS_NLL = (
    "void cunn_ClassNLLCriterion_updateOutput_kernel(Dtype *, Dtype *, Dtype *, long *, Dtype *, int, int, int, int, "
    "long) [with Dtype = float, Acctype = float]"
)
_SPATIAL_NLL = (
    "void cunn_SpatialClassNLLCriterion_updateOutput_kernel(T *, T *, T *, long *, T *, int, int, int, int, int, long) "
    "[with T = float, AccumT = float]"
)
_LARGE_INDEX = (
    "void indexSelectLargeIndex(TensorInfo<T, IndexType>, TensorInfo<T, IndexType>, TensorInfo<long, IndexType>, int, "
    "int, IndexType, IndexType, long) [with T = float, IndexType = unsigned int, DstDim = 2, SrcDim = 2, IdxDim = -2, "
    "IndexIsMajor = true]"
)
_GATHER = (
    "void THCudaTensor_gatherKernel(TensorInfo<Real, IndexType>, TensorInfo<Real, IndexType>, TensorInfo<long, "
    "IndexType>, int, IndexType) [with IndexType = unsigned int, Real = float, Dims = 2]"
)
_BCE = "Acctype bce_functor<Dtype, Acctype>::operator()(Tuple) [with Dtype = float, Acctype = float]"
_NATIVE = "aten/src/ATen/native/cuda/"

# group, whether it is a wording that most people meet, file, kernels, conditions
_ASSERTS: tuple[tuple[str, bool, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("cuda_class_nll", True, "aten/src/THCUNN/ClassNLLCriterion.cu", (_CLASS_NLL, "cunn_ClassNLLCriterion_updateOutput_kernel", _CLASS_NLL.replace("float", "c10::Half")), ("t >= 0 && t < n_classes",)),
    ("cuda_class_nll_0", True, "torch/lib/THCUNN/ClassNLLCriterion.cu", (_CLASS_NLL, "void cunn_ClassNLLCriterion_updateOutput_kernel1(Dtype *, Dtype *, Dtype *, long *, Dtype *)"), ("t >= 0 && t < n_classes",)),
    ("cuda_spatial_nll", True, "aten/src/THCUNN/SpatialClassNLLCriterion.cu", (_SPATIAL_NLL, "cunn_SpatialClassNLLCriterion_updateOutput_kernel"), ("t >= 0 && t < n_classes",)),
    ("cuda_nll", True, _NATIVE + "Loss.cu", ("nll_loss_forward_reduce_cuda_kernel_2d", "nll_loss_backward_reduce_cuda_kernel_2d"), ("t >= 0 && t < n_classes",)),
    ("cuda_nll_1d", False, _NATIVE + "Loss.cu", ("nll_loss_forward_no_reduce_cuda_kernel", "nll_loss_forward_reduce_cuda_kernel_1d"), ("cur_target >= 0 && cur_target < n_classes", "t >= 0 && t < n_classes")),
    ("cuda_nll2d", True, _NATIVE + "NLLLoss2d.cu", ("nll_loss2d_forward_kernel", "nll_loss2d_backward_kernel", "nll_loss2d_forward_no_reduce_kernel"), ("t >= 0 && t < n_classes", "cur_target >= 0 && cur_target < n_classes")),
    ("cuda_index_select", True, _NATIVE + "Indexing.cu", ("indexSelectLargeIndex", "indexSelectSmallIndex"), ("srcIndex < srcSelectDimSize",)),
    ("cuda_index_select_0", True, "aten/src/THC/THCTensorIndex.cu", (_LARGE_INDEX, _LARGE_INDEX.replace("Large", "Small"), _LARGE_INDEX.replace("DstDim = 2", "DstDim = 1")), ("srcIndex < srcSelectDimSize",)),
    ("cuda_index_add", False, _NATIVE + "Indexing.cu", ("indexAddLargeIndex", "indexFuncLargeIndex", "indexFuncSmallIndex", "indexAddSmallIndex"), ("dstIndex < dstAddDimSize",)),
    ("cuda_vectorized_gather", False, _NATIVE + "IndexKernelUtils.cu", ("vectorized_gather_kernel",), ('ind >=0 && ind < ind_dim_size && "vectorized gather kernel index out of bounds"', 'ind >=0 && ind < ind_dim_size && "index out of bounds"')),
    ("cuda_index", True, _NATIVE + "IndexKernel.cu", ("operator()", "lambda [](int)->auto::operator()(int)->auto"), ('index >= -sizes[i] && index < sizes[i] && "index out of bounds"', '-sizes[i] <= index && index < sizes[i] && "index out of bounds"')),
    ("cuda_take", False, _NATIVE + "IndexKernel.cu", ("operator()",), ('idx < numel && idx >= -numel && "cuda_take_put_kernel() index out of bounds"',)),
    ("cuda_scatter_gather", True, _NATIVE + "ScatterGatherKernel.cu", ("operator()",), ('idx_dim >= 0 && idx_dim < index_size && "index out of bounds"',)),
    ("cuda_scatter_gather_0", False, "aten/src/THC/THCTensorScatterGather.cu", (_GATHER, _GATHER.replace("gatherKernel", "scatterKernel"), _GATHER.replace("gather", "scatterFill")), ("indexValue >= 0 && indexValue < src.sizes[dim]", "indexValue >= 0 && indexValue < tensor.sizes[dim]")),
    ("cuda_bce", True, _NATIVE + "Loss.cu", ("operator()",), ("input_val >= zero && input_val <= one", "target_val >= zero && target_val <= one")),
    ("cuda_bce_0", False, "aten/src/THCUNN/BCECriterion.cu", (_BCE,), ("input >= 0. && input <= 1.",)),
)  # fmt: skip

_HINT_1 = (
    "CUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1."
)
_HINT_2 = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
)
_SEARCH = (
    "Search for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html "
    "for more information."
)
_TRIGGERED = "CUDA error: device-side assert triggered"

# group, core, exception, wordings; {l}: a line, {root}: where the sources were built
_RAISED_LATER: tuple[tuple[str, bool, str, tuple[str, ...]], ...] = (
    ("cuda_assert", True, "RuntimeError", (_TRIGGERED, f"{_TRIGGERED}\n{_HINT_1}", f"{_TRIGGERED}\n{_HINT_2}")),
    ("cuda_assert_accelerator", True, "torch.AcceleratorError", (f"{_TRIGGERED}\n{_SEARCH}\n{_HINT_2}", f"{_TRIGGERED}\n{_HINT_2}", f"{_TRIGGERED}\n{_SEARCH}")),
    (
        "cuda_assert_59",
        True,
        "RuntimeError",
        (
            "cuda runtime error (59) : device-side assert triggered at {root}aten/src/THC/generic/THCTensorMath.cu:{l}",
            "cuda runtime error (59) : device-side assert triggered at {root}aten/src/THC/generic/THCStorage.cpp:{l}",
            "cuda runtime error (59) : device-side assert triggered at {root}torch/lib/THC/generic/THCStorage.c:{l}",
            "cuda runtime error (59) : device-side assert triggered at {root}torch/lib/THC/generated/../THCReduceAll.cuh:{l}",
            "cuda runtime error (59) : device-side assert triggered at {root}torch/lib/THCUNN/generic/ClassNLLCriterion.cu:{l}",
        ),
    ),
    ("cuda_assert_710", False, "RuntimeError", ("cuda runtime error (710) : device-side assert triggered at {root}aten/src/THC/generic/THCTensorMath.cu:{l}", "cuda runtime error (710) : device-side assert triggered at {root}aten/src/THC/THCReduceAll.cuh:{l}")),
    (
        "cuda_assert_check",
        True,
        "",
        (
            "THCudaCheck FAIL file={root}aten/src/THC/THCCachingHostAllocator.cpp line={l} error=59 : device-side assert triggered",
            "THCudaCheck FAIL file={root}torch/lib/THC/generic/THCStorage.c line={l} error=59 : device-side assert triggered",
            "THCudaCheck FAIL file={root}aten/src/THC/generic/THCTensorMath.cu line={l} error=710 : device-side assert triggered",
        ),
    ),
    (
        "cuda_assert_thrust",
        False,
        "RuntimeError",
        (
            "copy_if failed to synchronize: cudaErrorAssert: device-side assert triggered",
            "copy_if failed to synchronize: device-side assert triggered",
            "reduce failed to synchronize: cudaErrorAssert: device-side assert triggered",
            "transform: failed to synchronize: cudaErrorAssert: device-side assert triggered",
            "after reduction step 1: cudaErrorAssert: device-side assert triggered",
            "parallel_for failed: cudaErrorAssert: device-side assert triggered",
        ),
    ),
    (
        "cuda_assert_terminate",
        False,
        "",
        ("terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: device-side assert triggered (insert_events at {root}c10/cuda/CUDACachingAllocator.cpp:{l})", f"terminate called after throwing an instance of 'c10::Error'\n  what():  {_TRIGGERED}\n{_HINT_2}"),
    ),
    ("hip_assert", False, "RuntimeError", ("HIP error: device-side assert triggered\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3",)),
)  # fmt: skip


def messages(cause: str, rng: random.Random) -> Iterator[Message]:
    """Yield device-side asserts of index and label kernels, drawn from `rng`."""
    for group, core, file, kernels, conditions in _ASSERTS:
        for _ in range(10):
            place, kernel, condition = _place(rng, file), rng.choice(kernels), rng.choice(conditions)
            block, thread = rng.choice((0, 0, rng.randrange(300))), rng.randrange(0, 992)
            head = rng.choice(
                ("", f"{place}: ", f"{place}: {kernel}: ", f"{place}: {kernel}: ", f"{place}: {kernel}: ")
            )
            quote = rng.choice(("", "`", "`", "`", "`"))
            lines = [
                f"{head}block: [{block},0,0], thread: [{thread + number},0,0] Assertion {quote}{condition}{quote} failed."
                for number in range(rng.choice((1, 1, 1, 2, 3)))
            ]
            if rng.random() < 0.35:
                lines.append(rng.choice((f"RuntimeError: {_TRIGGERED}", _TRIGGERED, *_old_error(rng, file))))
            yield rendered(cause, group, "\n".join(lines), "", core=core)
    for group, core, exception, wordings in _RAISED_LATER:
        for _ in range(10):
            text = rng.choice(wordings).format(root=_root(rng), l=rng.randrange(17, 700))
            yield rendered(cause, group, text, exception, core=core, frames=_frames(rng) if exception else ())


def _place(rng: random.Random, file: str) -> str:
    root = _root(rng)
    return f"{root}{file.replace('/', chr(92)) if chr(92) in root else file}:{rng.randrange(42, 1560)}"


def _root(rng: random.Random) -> str:
    return rng.choice(_ROOTS).format(build=rng.randrange(1_490_000_000_000, 1_730_000_000_000))


def _old_error(rng: random.Random, file: str) -> tuple[str, ...]:
    if "native" in file:
        return ()
    return (
        f"RuntimeError: cuda runtime error (59) : device-side assert triggered at {_place(rng, file)}",
        f"THCudaCheck FAIL file={_root(rng)}{file} line={rng.randrange(40, 400)} error=59 : device-side assert triggered",
    )


def _frames(rng: random.Random) -> tuple[Frame, ...]:
    """Return frames where an assert surfaces: backward, a copy, a layer, an embedding or a loss."""
    where = rng.randrange(4)
    if where == 0:
        return backward(rng)
    if where == 1:
        return (frame(rng, "torch/_tensor_str.py", (133, 145, 350, 640), "__init__", "nonzero_finite_vals = torch.masked_select("),)  # fmt: skip
    linear = frame(
        rng, "torch/nn/modules/linear.py", (96, 114, 116), "forward", "return F.linear(input, self.weight, self.bias)"
    )
    inner = rng.choice((embedding(rng), cross_entropy(rng), linear))
    return (*layer_call(rng), inner)
