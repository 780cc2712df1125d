"""Messages of operations whose tensors lie on different devices.

The meta device raises real ones on a machine without a GPU; the wordings of CUDA and MPS are rendered.
"""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn, zeros
from torch._subclasses.fake_tensor import FakeTensorMode

from corpus.message import Message
from corpus.wordings import Operation, Wording, raised_messages, rendered_messages

CAUSE = "device_mismatch"
META = "meta"
Device = str


def _fake(operation: Callable[[Device, Device], object]) -> Operation:
    """Return an operation that runs on fake tensors, which claim devices that this machine need not have."""

    def run(r: random.Random) -> object:
        first, second = r.choice(
            (
                ("cuda:0", "cpu"),
                ("cpu", "cuda:0"),
                ("cuda:1", "cuda:0"),
                ("cpu", "cuda:2"),
                ("cuda:0", "cuda:3"),
                ("cuda:1", "cpu"),
            )
        )
        with FakeTensorMode():
            return operation(first, second)

    return run


OPERATIONS: dict[str, Operation] = {
    "linear": lambda _: nn.Linear(3, 4, device=META)(zeros(2, 3)),
    "linear/2": lambda _: nn.Linear(3, 4)(zeros(2, 3, device=META)),
    "addmm": lambda _: torch.addmm(zeros(2), zeros(2, 2, device=META), zeros(2, 2)),
    "add": lambda r: r.choice((torch.add, torch.mul, torch.sub, torch.div, torch.eq))(zeros(3), zeros(3, device=META)),
    "where": lambda _: torch.where(zeros(3, device=META) > 0, zeros(3), zeros(3)),
    "cat": lambda r: r.choice((torch.cat, torch.stack))((zeros(2, 2), zeros(2, 2, device=META))),
    "layer_norm": lambda _: nn.LayerNorm(4, device=META)(zeros(2, 4)),
    "batch_norm": lambda _: nn.BatchNorm1d(4, device=META)(zeros(2, 4)),
    "lstm": lambda r: r.choice((nn.LSTM, nn.GRU, nn.RNN))(3, 4, device=META)(zeros(2, 2, 3)),
    "mse_loss": lambda r: r.choice((F.mse_loss, F.l1_loss, F.smooth_l1_loss))(zeros(3, device=META), zeros(3)),
    "cross_entropy": lambda _: F.cross_entropy(zeros(3, 4, device=META), zeros(3, dtype=torch.long)),
    "bce": lambda _: F.binary_cross_entropy(zeros(3, device=META), zeros(3)),
    "attention": lambda _: F.scaled_dot_product_attention(zeros(1, 2, 3, 4, device=META), zeros(1, 2, 3, 4), zeros(1, 2, 3, 4)),
    "prelu": lambda _: nn.PReLU(device=META)(zeros(3)),
    "copy_from_meta": lambda _: zeros(3, device=META).cpu(),
    "module_to": lambda _: nn.Linear(2, 2, device=META).to("cpu"),
    "masked_fill": lambda _: zeros(3, device=META).masked_fill(zeros(3) > 0, 1.0),
    "fake_mm": _fake(lambda a, b: zeros(2, 2, device=a) @ zeros(2, 2, device=b)),
    "fake_add": _fake(lambda a, b: zeros(2, device=a) + zeros(2, device=b)),
    "bilinear": lambda _: nn.Bilinear(2, 2, 3, device=META)(zeros(1, 2), zeros(1, 2)),
    "dot": lambda r: r.choice((lambda: torch.dot(zeros(3, device=META), zeros(3)), lambda: torch.mv(zeros(3, 3), zeros(3, device=META))))(),
}  # fmt: skip

CORE = frozenset(("module_to", "copy_from_meta", "lstm", "attention", "fake_mm"))
_SAME = "Expected all tensors to be on the same device, but found at least two devices, "
_ARGUMENTS = (
    "mat1 in method wrapper_CUDA_addmm", "mat2 in method wrapper_CUDA_mm", "index in method wrapper_CUDA__index_select", "mat1 in method wrapper_addmm", "target in method wrapper_CUDA_nll_loss_forward",
    "weight in method wrapper___slow_conv2d_forward", "weight in method wrapper_CUDA__cudnn_convolution", "index in method wrapper__index_select", "tensors in method wrapper_CUDA_cat", "mat2 in method wrapper_CUDA_bmm",
    "weight in method wrapper_CUDA__native_layer_norm", "weight in method wrapper__cudnn_batch_norm", "other in method wrapper_CUDA__equal", "index in method wrapper_CUDA_gather", "mask in method wrapper_CUDA__masked_select",
    "vec in method wrapper_CUDA_dot", "value in method wrapper_CUDA_masked_fill", "tensor in method wrapper__index_copy_", "batch2 in method wrapper_baddbmm", "target in method wrapper_CUDA__binary_cross_entropy",
    "self in method wrapper_CUDA_index_put_", "hx in method wrapper__thnn_fused_gru_cell", "weight in method wrapper__prelu", "src in method wrapper_CUDA_scatter__src", "boxes in method wrapper__nms", "other in method wrapper_remainder_Tensor",
)  # fmt: skip
_CALLS = (
    "#1 'self' in call to _th_addmm", "#2 'mat1' in call to _th_addmm", "#3 'index' in call to _th_index_select", "#1 'self' in call to _thnn_conv2d_forward", "#2 'weight' in call to _thnn_conv2d_forward", "#3 'mat2' in call to _th_addmm_out",
    "#2 'target' in call to _thnn_nll_loss_forward", "#1 'self' in call to _th_index_select", "#4 'mat1'", "#3 'index'", "#2 'other'", "#2 'weight'", "#1 'self'", "#2 'mat2' in call to _th_mm", "#2 'other' in call to _th_equal", "#3 'other' in call to _th_masked_scatter_",
    "#2 'self' in call to _th_fmod", "#1 'tensors' in call to _th_cat", "#0 'result' in call to _th_addmm_out", "#2 'batch2' in call to _th_bmm", "#3 'mask' in call to _th_masked_fill_bool_",
)  # fmt: skip
WORDINGS = (
    Wording("same_device", "RuntimeError", (_SAME + "cuda:0 and cpu!", _SAME + "cpu and cuda:0!", _SAME + "{cuda} and cpu!", _SAME + "cuda:0 and cuda:1!", _SAME + "cuda:1 and cuda:0!", _SAME + "cpu and mps:0!", _SAME + "mps:0 and cpu!",
                                              "Expected all tensors to be on the same device. Found: cuda:0, cpu", "expected all tensors to be on the same device but found at least two devices", _SAME + "xpu:0 and cpu!", _SAME + "cuda:0 and meta!", _SAME + "npu:0 and cpu!"), core=True),
    Wording("same_device_argument", "RuntimeError", tuple(_SAME + d + "! (when checking argument for argument " + a + ")" for d, a in zip(("cpu and cuda:0", "cuda:0 and cpu", "cuda:1 and cuda:0") * 9, _ARGUMENTS, strict=False)), core=True),
    Wording("same_device_called", "RuntimeError", tuple("Expected all tensors to be on the same device, but got " + w for w in (
        "mat1 is on cpu, different from other tensors on {cuda} (when checking argument in method wrapper_CUDA_addmm)", "index is on cpu, different from other tensors on {cuda} (when checking argument in method wrapper_CUDA__index_select)", "weight is on {cuda}, different from other tensors on cpu (when checking argument in method wrapper_CUDA__cudnn_convolution)",
        "target is on cpu, different from other tensors on {cuda} (when checking argument in method wrapper_CUDA_nll_loss_forward)", "tensors is on cuda:0, different from other tensors on cuda:1 (when checking argument in method wrapper_CUDA_cat)", "mat2 is on {cuda}, different from other tensors on cuda:3 (when checking argument in method wrapper_CUDA_mm)")), core=True),
    Wording("device_type", "RuntimeError", tuple(f"Expected object of device type {pair} for argument {c}" for pair, c in zip(("cuda but got device type cpu", "cuda but got device type cpu", "cpu but got device type cuda") * 7, _CALLS, strict=True)), core=True),
    Wording("backend", "RuntimeError", tuple(f"Expected object of backend {pair} for argument {c}" for pair, c in zip(("CUDA but got backend CPU", "CPU but got backend CUDA", "CUDA but got backend CPU") * 7, _CALLS, strict=True)), core=True),
    Wording("old_type", "RuntimeError", (
        "Expected object of type torch.cuda.FloatTensor but found type torch.FloatTensor for argument #2 'mat2'", "Expected object of type torch.cuda.LongTensor but found type torch.LongTensor for argument #3 'index'", "Expected object of type torch.FloatTensor but found type torch.cuda.FloatTensor for argument #2 'weight'",
        "Expected object of type torch.cuda.FloatTensor but found type torch.FloatTensor for argument #4 'mat1'", "Expected object of type torch.cuda.LongTensor but found type torch.LongTensor for argument #2 'target'", "Expected object of type torch.FloatTensor but found type torch.cuda.FloatTensor for argument #1 'self'",
        "Expected object of type torch.cuda.FloatTensor but found type torch.FloatTensor for argument #0 'result'", "Expected a Tensor of type torch.cuda.FloatTensor but found a type torch.FloatTensor for sequence element {j} in sequence argument at position #1 'tensors'",
        "expected type torch.cuda.FloatTensor but got torch.FloatTensor", "Expected object of type Variable[torch.cuda.FloatTensor] but found type Variable[torch.FloatTensor] for argument #1 'mat2'", "expected type torch.FloatTensor but got torch.cuda.FloatTensor",
        "expected Variable[torch.cuda.LongTensor] (got Variable[torch.LongTensor])", "Expected tensor for argument #1 'indices' to have type CUDALongType but got CPULongType",
    ), core=True),
    Wording("input_weight_cuda", "RuntimeError", (
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
    ), core=True),
    Wording("input_weight", "RuntimeError", (
        "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same", "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
        "Input type (CUDAFloatTensor) and weight type (CPUFloatTensor) should be the same", "Input type (CPUFloatTensor) and weight type (CUDAFloatTensor) should be the same", "Input type (torch.cuda.HalfTensor) and weight type (torch.HalfTensor) should be the same",
        "Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same", "Input type (torch.FloatTensor) and weight type (MPSFloatType) should be the same", "Input type (torch.cuda.FloatTensor) and weight type (CPUFloatType) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
        "Input type (torch.cuda.FloatTensor) and bias type (torch.FloatTensor) should be the same", "Input type (torch.cuda.DoubleTensor) and weight type (torch.DoubleTensor) should be the same", "Input type (torch.cuda.BFloat16Tensor) and weight type (CPUBFloat16Type) should be the same", "Input type (XPUFloatType) and weight type (torch.FloatTensor) should be the same",
        "Expected Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) to be the same",
    ), core=True),
    Wording("input_hidden", "RuntimeError", ("Input and hidden tensors are not at the same device, found input tensor at {cuda} and hidden tensor at cpu", "Input and hidden tensors are not at the same device, found input tensor at cpu and hidden tensor at {cuda}", "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at {cuda}",
                                              "Input and parameter tensors are not at the same device, found input tensor at {cuda} and parameter tensor at cpu", "Input and parameter tensors are not at the same device, found input tensor at mps:0 and parameter tensor at cpu", "Input and hidden tensors are not at the same device, found input tensor at cuda:1 and hidden tensor at cuda:0"), core=True),
    Wording("parallel_module", "RuntimeError", ("module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu", "module must have its parameters and buffers on device {cuda} (device_ids[0]) but found one of them on device: cuda:{g}", "module must have its parameters and buffers on device cuda:1 (device_ids[0]) but found one of them on device: cuda:0",
                                                 "all tensors must be on devices[0]", "all tensors must be on devices[0]: 0", "all tensors must be on devices[0]: {g}", "Broadcast function not implemented for CPU tensors"), core=True),
    Wording("ddp_devices", "ValueError", ("DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids [{g}], output_device {g}, and module parameters {cpu}.", "DistributedDataParallel's input module must be on the same type of devices, but input module parameters locate in {'cpu', 'cuda'}.",
                                          "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, and module parameters {device(type='cuda', index=1), device(type='cpu')}.")),
    Wording("tensor_on", "RuntimeError", ("Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU (while checking arguments for addmm)", "Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected them to be on GPU (while checking arguments for addmm)", "Tensor for argument #3 'mat2' is on CPU, but expected it to be on GPU (while checking arguments for addmm)",
                                          "Tensor for argument #2 'weight' is on CPU, but expected it to be on GPU (while checking arguments for cudnn_batch_norm)", "Expected tensor to have CPU Backend, but got tensor with CUDA Backend (while checking arguments for batch_norm_cpu)", "Expected tensor to have CPU Backend, but got tensor with CUDA Backend (while checking arguments for mkldnn_convolution)",
                                          "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but device {g} does not equal 0 (while checking arguments for cudnn_convolution)", "Expected tensor for argument #1 'grad_output' to have the same device as tensor for argument #2 'weight'; but device 1 does not equal 0 (while checking arguments for cudnn_convolution_backward_input)",
                                          "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but device 1 does not equal 0 (while checking arguments for cudnn_batch_norm)", "Tensor for argument #1 'self' is on CPU, but expected it to be on GPU (while checking arguments for cublas)"), core=True),
    Wording("arguments_gpus", "RuntimeError", ("arguments are located on different GPUs at {root}/aten/src/THC/generic/THCTensorMathBlas.cu:{line}", "arguments are located on different GPUs at {root}/aten/src/THC/generic/THCTensorIndex.cu:{line}", "Assertion `THCTensor_(checkGPU)(state, {j}, input, target, weights)' failed. Some of weight/gradient/input tensors are located on different GPUs. Please move them to a single one.",
                                               "Assertion `THCTensor_(checkGPU)(state, 4, r_, t, m1, m2)' failed at {root}/aten/src/THC/generic/THCTensorMathBlas.cu:{line}", "Some of weight/gradient/input tensors are located on different GPUs. Please move them to a single one. at {root}/aten/src/THCUNN/generic/ClassNLLCriterion.cu:{line}", "tensors are on different GPUs", "binary_op(): expected both inputs to be on same device, but input a is on {cuda} and input b is on cpu",
                                               "expected device cuda:0 but got device cpu", "expected device cpu but got device cuda:0", "expected device cuda:1 but got device cuda:0", "expected device cuda:0 and dtype Float but got device cpu and dtype Float", "expected device cpu and dtype Float but got device {cuda} and dtype Float", "expected device cuda:0 and dtype Long but got device cpu and dtype Long"), core=True),
    Wording("indices", "RuntimeError", ("indices should be either on cpu or on the same device as the indexed tensor (cpu)", "indices should be either on cpu or on the same device as the indexed tensor (cuda:0)", "indices should be either on cpu or on the same device as the indexed tensor ({cuda})", "indices should be either on cpu or on the same device as the indexed tensor (cuda)",
                                        "boxes and scores should be on the same device", "torch.cat(): all input tensors must be on the same device. Received cpu and cuda:0", "torch.cat(): all input tensors must be on the same device. Received cuda:0 and cuda:1", "All input tensors must be on the same device. Received cuda:0 and cpu", "All input tensors must be on the same device. Received cpu and mps:0", "torch.stack(): all input tensors must be on the same device"), core=True),
    Wording("placeholder", "RuntimeError", ("Placeholder storage has not been allocated on MPS device!", "slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device", "tensors must be on the same MPS device", "Tensor for argument weight is on cpu but expected on mps", "Tensor for argument input is on cpu but expected on mps", "Passed CPU tensor to MPS op"), core=True),
    Wording("scalar_cpu", "RuntimeError", ("iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at \"{root}/aten/src/ATen/native/cuda/Loops.cuh\":{line}, please report a bug to PyTorch. ", "iter.device(arg).is_cuda() INTERNAL ASSERT FAILED at {root}/aten/src/ATen/native/cuda/CUDALoops.cuh:{line}, please report a bug to PyTorch.", "Expected condition, x and y to be on the same device, but condition is on cuda:0 and x and y are on cpu and cuda:0 respectively",
                                             "expected condition, x and y to be on the same device, but condition is on {cuda} and x and y are on {cuda} and cpu respectively", "expected self and mask to be on the same device, but got mask on cuda:0 and self on cpu", "expected self and mask to be on the same device, but got mask on cpu and self on {cuda}", "_thnn_fused_lstm_cell: expected hidden and input on same device", "value cannot be on a different device: expected cuda, got cpu"), core=True),
    Wording("generator_device", "RuntimeError", ("Expected a 'cuda' device type for generator but found 'cpu'", "Expected a 'cpu' device type for generator but found 'cuda'", "Cannot generate a cuda tensor from a generator of type cpu.", "Expected a 'cuda:0' generator device but found 'cpu'", "Expected a 'mps:0' generator device but found 'cpu'", "RNG state must be a torch.ByteTensor on cpu, got cuda", "Expected a '{cuda}' generator device but found 'cpu'")),
    Wording("pin_memory", "RuntimeError", ("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned", "cannot pin 'torch.cuda.LongTensor' only dense CPU tensors can be pinned", "cannot pin 'CUDALongType' only dense CPU tensors can be pinned", "cannot pin 'torch.cuda.ByteTensor' only CPU memory can be pinned"), core=True),
    Wording("lengths_cpu", "RuntimeError", ("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor", "'lengths' argument should be a 1D CPU int64 tensor, but got 1D {cuda} Long tensor", "'lengths' argument should be a 1D CPU int64 tensor, but got 1D mps:0 Long tensor", "lengths array has to be on the CPU, got a cuda tensor"), core=True),
    Wording("legacy_call", "TypeError", ("torch.addmm received an invalid combination of arguments - got (int, torch.cuda.FloatTensor, int, torch.FloatTensor, torch.cuda.FloatTensor, out=torch.cuda.FloatTensor), but expected one of:", "CudaSpatialConvolution: expected torch.cuda.FloatTensor (got torch.FloatTensor)", "addmm_ received an invalid combination of arguments - got (int, int, torch.cuda.FloatTensor, torch.FloatTensor), but expected one of:\n * (torch.cuda.FloatTensor mat1, torch.cuda.FloatTensor mat2)",
                                         "FloatSpatialConvolutionMM_updateOutput received an invalid combination of arguments - got (int, torch.cuda.FloatTensor, torch.FloatTensor, torch.cuda.FloatTensor, int, int), but expected (int state, torch.FloatTensor input, torch.FloatTensor output)", "CudaClassNLLCriterion_updateOutput received an invalid combination of arguments - got (int, torch.cuda.FloatTensor, torch.LongTensor, torch.cuda.FloatTensor, bool), but expected (int state, torch.cuda.FloatTensor input, torch.cuda.LongTensor target)",
                                         "Type torch.cuda.FloatTensor doesn't implement stateless method index_select for torch.LongTensor", "FloatThresholdUpdateOutput: expected torch.FloatTensor, found torch.cuda.FloatTensor", "mul received an invalid combination of arguments - got (torch.FloatTensor), but expected one of: (torch.cuda.FloatTensor other)")),
    Wording("offload", "ValueError", ("You can't train a model that has been loaded in 8-bit precision on a different device than the one you're training on. Make sure you loaded the model on the correct device", "weight is on the meta device, we need a `value` to put in on {g}.", "weight is on the meta device, we need a `value` to put in on cpu.", "You are calling .generate() with the input_ids being on a device type different than your model's device. input_ids is on cpu, whereas the model is on cuda.",
                                      "You can't move a model that has some modules offloaded to cpu or disk.", "Pointer argument (at {i}) cannot be accessed from Triton (cpu tensor?)", "Inputs are on cpu while the model's parameters are on {cuda}: move them to the same device", "The model and its inputs must be on the same device: got model on cuda and image on cpu", "Attempted to set the storage of a tensor on device \"cpu\" to a storage on different device \"cuda:0\".  This is no longer allowed; the devices must match."), core=False),
    Wording("meta_copy", "NotImplementedError", ("Cannot copy out of meta tensor; no data!", "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.", "Tensor on device cuda:0 is not on the expected device meta!", "Tensor on device cpu is not on the expected device meta!", "Tensor on device {cuda} is not on the expected device meta!"), core=True),
    Wording("unhandled", "RuntimeError", ("Unhandled FakeTensor Device Propagation for aten.mm.default, found two different devices {cuda}, cpu", "Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different devices cpu, cuda:0", "Unhandled FakeTensor Device Propagation for aten.embedding.default, found two different devices cuda:0, cpu", "grad and param do not share the same device: cpu vs {cuda}", "Function {op} returned an invalid gradient at index {i} - expected device cuda:0 but got cpu",
                                          "Function {op} returned an invalid gradient at index {i} - expected device {cuda} but got cuda:1", "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, and layout", "optimizer state is on cpu but parameter is on {cuda}", "torch.nn.utils.clip_grad_norm_: gradients on different devices: cpu and cuda:0", "Gradients are not CUDA tensors: expected cuda and got cpu in optimizer step"), core=True),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of device_mismatch."""
    yield from raised_messages(CAUSE, OPERATIONS, rng, 4, core=CORE)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 5)
