"""Messages of views that a tensor's memory layout does not allow."""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import zeros

from corpus.message import Message
from corpus.wordings import Operation, Wording, raised_messages, rendered_messages, sizes

CAUSE = "non_contiguous_view"


def _flipped(r: random.Random) -> object:
    array = np.zeros((4, 5, 3))
    return r.choice((torch.from_numpy, torch.as_tensor, torch.tensor))(
        r.choice((array[::-1], array[:, ::-1], array[..., ::-1], np.flip(array, 0)))
    )


def _channels_last(r: random.Random) -> object:
    a, b, c = sizes(r, 3)
    return zeros(a, b, c, 2).to(memory_format=torch.channels_last).view(-1)


OPERATIONS: dict[str, Operation] = {
    "transpose_view": lambda r: zeros(*sizes(r, 2)).t().view(-1),
    "permute_view": lambda r: zeros(*sizes(r, 3)).permute(2, 0, 1).view(-1),
    "slice_view": lambda r: zeros(*sizes(r, 2))[:, :1].expand(-1, 3).view(-1),
    "channels_last_view": _channels_last,
    "expand_view": lambda r: zeros(sizes(r, 1)[0], 1).expand(-1, 5).view(-1),
    "attention_heads_view": lambda r: zeros(2, 4, *sizes(r, 2)).transpose(1, 2).view(2, -1),
    "numpy_negative_strides": _flipped,
    "view_dtype": lambda r: zeros(*sizes(r, 2)).t().view(r.choice((torch.float64, torch.int64, torch.complex64, torch.int16, torch.uint8))),
    "view_as_complex": lambda r: torch.view_as_complex(zeros(2, 3).t()) if r.random() < 0.5 else torch.view_as_complex(zeros(3, 4, 2).permute(2, 1, 0)[..., :2]),
    "negative_stride": lambda r: torch.as_strided(zeros(4), (2, 2), (-1, r.randint(1, 3))),
    "memory_format": lambda r: zeros(*sizes(r, r.choice((2, 3)))).to(memory_format=torch.channels_last) if r.random() < 0.6 else zeros(2, 2, 2).contiguous(memory_format=torch.channels_last_3d),
    "negative_step": lambda r: zeros(5)[:: -r.randint(1, 3)],
}  # fmt: skip
CORE = frozenset(("permute_view", "numpy_negative_strides", "transpose_view"))
_VIEW = "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces)."
WORDINGS = (
    Wording("view_reshape", "RuntimeError", (f"{_VIEW} Use .reshape(...) instead.", f"{_VIEW} Call .contiguous() before .view().", f"{_VIEW} Call .contiguous() before .view(). at {{root}}/aten/src/TH/generic/THTensor.cpp:{{line}}", f"{_VIEW} Use .reshape(...) instead. (view at {{root}}/aten/src/ATen/native/TensorShape.cpp:{{line}})", f"invalid argument 2: {_VIEW} Call .contiguous() before .view(). at {{root}}/aten/src/THC/generic/THCTensor.cpp:{{line}}",
                                              f"invalid argument 2: {_VIEW} Call .contiguous() before .view(). at {{root}}/aten/src/TH/generic/THTensor.cpp:{{line}}", "view size is not compatible with input tensor's size and stride", "view size is not compatible with input tensor's size and stride. Use .reshape(...) instead."), core=True),
    Wording("old_view", "RuntimeError", ("input is not contiguous at {root}/torch/lib/THC/generic/THCTensor.c:{line}", "input is not contiguous (view) at {root}/torch/lib/TH/generic/THTensor.c:{line}", "input is not contiguous", "invalid argument 2: view: input is not contiguous, call .contiguous() first", "view(): argument must be contiguous: call contiguous() before view()", "tensor must be contiguous at {root}/torch/lib/THC/generic/THCTensor.c:{line}", "input tensor has to be contiguous", "view on a non-contiguous tensor"), core=True),
    Wording("negative_numpy", "ValueError", ("some of the strides of a given numpy array are negative. This is currently not supported, but will be added in future releases.", "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a copy of your array  with array.copy().)", "At least one of the strides of a given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a copy of your array  with array.copy().)",
                                            "some of the strides of a given numpy array are negative", "torch.from_numpy does not support negative strides", "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.", "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported."), core=True),
    Wording("step_positive", "ValueError", ("negative step not yet supported", "step must be greater than zero", "slice step must be positive", "negative step not yet supported, use torch.flip"), core=True),
    Wording("rnn_contiguous", "RuntimeError", ("rnn: hx is not contiguous", "input must be contiguous", "rnn: cx is not contiguous", "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", "CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.", "rnn: hidden state is not contiguous, call .contiguous()", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED on non-contiguous input"), core=True),
    Wording("ext_check", "RuntimeError", ("x must be contiguous", "input must be contiguous (forward at ms_deform_attn_cuda.cu:{line})", "value tensor has to be contiguous", "input tensor has to be contiguous (ms_deform_attn_cuda_forward at src/cuda/ms_deform_attn_cuda.cu:{line})", "tensor must be contiguous", "{mod} must be contiguous tensor", "weight tensor has to be contiguous", "Expected input.is_contiguous() to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
                                          "input.is_contiguous() INTERNAL ASSERT FAILED at \"{root}/aten/src/ATen/native/cuda/Im2Col.cu\":{line}, please report a bug to PyTorch.", "grad_output must be a contiguous tensor", "points must be a contiguous tensor", "Expected self.is_contiguous() to be true, but got false.", "mat1 must be contiguous", "CHECK_CONTIGUOUS failed: query must be contiguous", "xyz must be contiguous", "new_xyz tensor must be contiguous", "ball_query: input is not contiguous"), core=True),
    Wording("collective_contiguous", "ValueError", ("Tensors must be contiguous", "tensor must be contiguous for all_gather: call .contiguous() first", "You are trying to save a non contiguous tensor: `{mod}.weight` which is not allowed. It either means you are trying to save tensors which are reference of each other in which case it's recommended to save only the full tensors, and reslice at load time, or simply call `.contiguous()` on your tensor to pack it before saving.", "You are trying to save a non contiguous tensor: `{mod}.bias` which is not allowed.", "All tensors in the input list must be contiguous", "send(): tensor has to be contiguous"), core=True),
    Wording("complex_stride", "RuntimeError", ("Tensor must have a stride divisible by 2 for all but last dimension", "Tensor must have a last dimension of size 2", "Tensor must have a storage_offset divisible by 2", "view_as_complex: last dimension must have stride 1, call contiguous()")),
    Wording("triton_stride", "AssertionError", ("matrix A must be contiguous", "Matrix A must be contiguous", "input tensor must be contiguous", "Input must be contiguous in the last dimension", "x must be contiguous, got strides ({d}, {n}, 1)", "q.stride(-1) must be 1", "Expected contiguous tensor, got stride ({n}, {d})", "Both operands must be contiguous", "tensor is not contiguous: shape {shape3}, stride ({n}, 1, {d})", "out must be contiguous", "inputs to the kernel must be contiguous, found a transposed view")),
    Wording("flash_stride", "RuntimeError", ("Input tensor must have contiguous last dimension", "Expected q.stride(-1) == 1 to be true, but got false.", "v must have contiguous last dimension", "query is not correctly aligned (strideM)", "(*bias): last dimension must be contiguous", "attn_bias is not correctly aligned (strideM). attn_bias.stride({j}) = {d}, and should be a multiple of 8.", "p.attn_bias_ptr is not correctly aligned", "x.stride(1) == 1 || x.stride(-1) == 1, expected contiguous inner dimension")),
    Wording("memory_format_text", "RuntimeError", ("required rank 4 tensor to use channels_last format", "required rank 5 tensor to use channels_last_3d format", "Unsupported memory format option ChannelsLast", "Unsupported memory format option Preserve", "unsupported memory format option Contiguous", "grad.is_contiguous(memory_format) INTERNAL ASSERT FAILED, please report a bug to PyTorch.")),
    Wording("mps_view", "RuntimeError", (f"{_VIEW} Use .reshape(...) instead. (mps)", "view size is not compatible with the strides of the tensor, which is not contiguous on MPS; use reshape", "[srcBuf length] > 0 INTERNAL ASSERT FAILED: Placeholder tensor is not contiguous", "MPS: the output tensor is not contiguous", "sparse view: tensor is not contiguous", "cannot view a non-contiguous tensor with shape {shape3} and strides ({n}, 1, {d}) as {shape2}", "Cannot view a tensor with shape torch.Size({shape3}) and strides ({n}, 1, {d}) as a tensor with shape ({b}, {big})!", "Cannot view a tensor with shape torch.Size({shape4}) and strides ({big}, {n}, {d}, 1) as a tensor with shape ({b}, {d}, {n})!")),
    Wording("squeeze_storage", "RuntimeError", ("as_strided: Negative strides are not supported at the moment, got strides: [-{k}, 1]", "as_strided() called with non-contiguous output", "cannot resize variables that require grad and are not contiguous", "stride is not valid for a view of the storage: shape {shape3}", "the view is out of the storage's bounds and not contiguous")),
    Wording("numpy_layout", "ValueError", ("ndarray is not C-contiguous", "ndarray is not contiguous", "Buffer is not C contiguous", "To change to a dtype of a different size, the last axis must be contiguous", "incompatible shape for a non-contiguous array", "memoryview: underlying buffer is not C-contiguous", "array is not C-contiguous, use np.ascontiguousarray", "assignment destination is not contiguous"), core=True),
    Wording("opencv_layout", "cv2.error", ("OpenCV(4.5.1) :-1: error: (-5:Bad argument) in function 'rectangle'\n> Overload resolution failed:\n>  - Layout of the output array img is incompatible with cv::Mat", "OpenCV(4.{k}.0) :-1: error: (-5:Bad argument) in function 'putText' Layout of the output array img is incompatible with cv::Mat (step[ndims-1] != elemsize or step[1] != elemsize*nchannels)", "Layout of the output array img is incompatible with cv::Mat")),
    Wording("bucket_view", "RuntimeError", ("grad.is_contiguous() INTERNAL ASSERT FAILED: the gradient is not contiguous", "Grad strides do not match bucket view strides, the gradient is not contiguous", "DDP expects contiguous gradients: call .contiguous() after permute", "param strides do not match the view in the bucket: the tensor is not contiguous", "param.grad is not contiguous")),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of non_contiguous_view."""
    yield from raised_messages(CAUSE, OPERATIONS, rng, 6, core=CORE)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 4)
