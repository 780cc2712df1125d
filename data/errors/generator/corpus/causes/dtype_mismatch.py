"""Messages of operations whose tensors' number types do not go together, or have no kernel."""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, zeros

from corpus.message import Message
from corpus.wordings import Operation, Wording, raised_messages, rendered_messages

CAUSE = "dtype_mismatch"
FLOATS = (torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)


def _other(r: random.Random) -> torch.dtype:
    return r.choice(FLOATS + INTEGERS)


def _float(r: random.Random) -> torch.dtype:
    return r.choice(FLOATS)


def _conv(r: random.Random) -> object:
    kind, dims = r.choice(((nn.Conv1d, 1), (nn.Conv2d, 2), (nn.Conv3d, 3), (nn.ConvTranspose2d, 2)))
    return kind(3, 4, 3)(zeros(2, 3, *[8] * dims, dtype=_other(r)))


def _in_place(r: random.Random) -> object:
    x = zeros(3, dtype=r.choice(INTEGERS))
    operation = r.choice((x.add_, x.mul_, x.sub_, x.div_))
    return operation(zeros(3, dtype=r.choice((torch.float32, *FLOATS))))


def _index_put(r: random.Random) -> object:
    x = zeros(3, 3, dtype=_float(r))
    x[torch.tensor([0, 1])] = zeros(2, 3)
    return x


OPERATIONS: dict[str, Operation] = {
    "linear": lambda r: nn.Linear(3, 4)(zeros(2, 3, dtype=_other(r))),
    "linear/2": lambda r: nn.Linear(3, 4, dtype=_float(r))(zeros(2, 3)),
    "mm": lambda r: r.choice((torch.mm, torch.matmul))(zeros(2, 2), zeros(2, 2, dtype=_other(r))),
    "mm/2": lambda r: torch.mm(zeros(2, 2, dtype=torch.long), zeros(2, 2, dtype=_float(r))),
    "bmm": lambda r: torch.bmm(zeros(1, 2, 2), zeros(1, 2, 2, dtype=_other(r))),
    "addmm": lambda r: torch.addmm(zeros(2, dtype=_float(r)), zeros(2, 2), zeros(2, 2)),
    "conv": _conv,
    "lstm": lambda r: r.choice((nn.LSTM, nn.GRU, nn.RNN))(3, 4)(zeros(2, 2, 3, dtype=_other(r))),
    "lstm_hidden": lambda r: nn.GRU(3, 4)(zeros(2, 2, 3), zeros(1, 2, 4, dtype=_float(r))),
    "lstm_cell": lambda r: nn.LSTMCell(3, 4)(zeros(2, 3, dtype=_other(r))),
    "layer_norm": lambda r: nn.LayerNorm(3)(zeros(2, 3, dtype=r.choice((torch.float64, *INTEGERS)))),
    "batch_norm": lambda r: nn.BatchNorm1d(3)(zeros(2, 3, dtype=r.choice((torch.float64, *INTEGERS)))),
    "group_norm": lambda r: nn.GroupNorm(1, 3)(zeros(2, 3, 2, dtype=r.choice((torch.float64, *INTEGERS)))),
    "embedding": lambda r: nn.Embedding(5, 3)(zeros(2, dtype=r.choice((torch.float32, torch.uint8, *FLOATS)))),
    "cross_entropy": lambda r: F.cross_entropy(zeros(3, 4), zeros(3, dtype=r.choice((torch.float32, torch.int32, *FLOATS)))),
    "nll_loss": lambda r: F.nll_loss(zeros(3, 4), zeros(3, dtype=r.choice((torch.float32, torch.int32, torch.int16)))),
    "cross_entropy_input": lambda r: F.cross_entropy(zeros(3, 4, dtype=r.choice(INTEGERS)), zeros(3, dtype=torch.long)),
    "bce": lambda r: F.binary_cross_entropy(zeros(3) + 0.5, zeros(3, dtype=_other(r))),
    "mse_loss": lambda r: F.mse_loss(zeros(3, dtype=r.choice(INTEGERS)), zeros(3, dtype=r.choice(INTEGERS))),
    "dot": lambda r: torch.dot(zeros(3), zeros(3, dtype=_other(r))),
    "einsum": lambda r: torch.einsum("ij,jk->ik", zeros(2, 2), zeros(2, 2, dtype=_other(r))),
    "attention": lambda r: F.scaled_dot_product_attention(zeros(1, 2, 3, 4), zeros(1, 2, 3, 4, dtype=_float(r)), zeros(1, 2, 3, 4)),
    "attention_mask": lambda r: F.scaled_dot_product_attention(zeros(1, 2, 3, 4), zeros(1, 2, 3, 4), zeros(1, 2, 3, 4), attn_mask=zeros(3, 3, dtype=r.choice((torch.int64, torch.float64, torch.int32)))),
    "multihead": lambda r: nn.MultiheadAttention(4, 2)(*[zeros(2, 2, 4, dtype=_float(r))] * 3),
    "in_place": _in_place,
    "index_put": _index_put,
    "index": lambda r: zeros(3)[zeros(2, dtype=r.choice((torch.float32, *FLOATS)))],
    "index_select": lambda r: zeros(3).index_select(0, zeros(2, dtype=r.choice((torch.float32, torch.int16, *FLOATS)))),
    "gather": lambda r: zeros(3, 3).gather(0, zeros(1, 1, dtype=r.choice((torch.float32, torch.int16)))),
    "scatter": lambda r: zeros(3, 3).scatter_(0, zeros(1, 1, dtype=torch.long), zeros(1, 1, dtype=_float(r))),
    "scatter_index": lambda r: zeros(3, 3).scatter_(1, zeros(1, 1, dtype=r.choice((torch.float32, torch.int16))), 1.0),
    "one_hot": lambda r: F.one_hot(zeros(3, dtype=r.choice((torch.float32, torch.int32, torch.float64)))),
    "mean": lambda r: r.choice((torch.mean, torch.std, torch.var))(zeros(3, dtype=r.choice(INTEGERS))),
    "softmax": lambda r: r.choice((torch.softmax, torch.log_softmax))(zeros(3, dtype=r.choice(INTEGERS)), 0),
    "norm": lambda r: r.choice((torch.linalg.norm, torch.norm, torch.linalg.inv))(torch.eye(2, dtype=r.choice(INTEGERS))),
    "linalg_half": lambda r: r.choice((torch.linalg.inv, torch.linalg.svd, torch.linalg.cholesky, torch.linalg.qr, torch.linalg.eigh, torch.linalg.det))(torch.eye(2, dtype=r.choice((torch.float16, torch.bfloat16)))),
    "pool_integer": lambda r: r.choice((F.avg_pool2d, F.adaptive_avg_pool2d))(zeros(1, 1, 4, 4, dtype=r.choice((torch.uint8, torch.int32))), 2),
    "interpolate": lambda r: F.interpolate(zeros(1, 1, 4, 4, dtype=r.choice((torch.int64, torch.int32, torch.bool))), scale_factor=2, mode=r.choice(("bilinear", "bicubic"))),
    "grid_sample": lambda r: F.grid_sample(zeros(1, 1, 4, 4), zeros(1, 2, 2, 2, dtype=_float(r)), align_corners=False),
    "bool_minus": lambda r: r.choice((lambda: (zeros(3) > 0) - (zeros(3) > 0), lambda: 1 - (zeros(3) > 0), lambda: -(zeros(3) > 0)))(),
    "bitwise": lambda r: r.choice((lambda: zeros(3) & zeros(3), lambda: ~zeros(3), lambda: zeros(3) | 1))(),
    "requires_grad_integer": lambda r: r.choice((lambda: torch.ones(3, dtype=r.choice(INTEGERS), requires_grad=True), lambda: nn.Parameter(torch.ones(3, dtype=r.choice(INTEGERS)))))(),
    "numpy_object": lambda r: torch.from_numpy(np.array([object(), None])) if r.random() < 0.5 else torch.tensor(np.array(["a", "b"])),
    "unsupported_numpy": lambda r: torch.from_numpy(np.array(r.choice((["a", "bc"], ["cat", "dogs!"], [1, None])))),
    "masked": lambda r: torch.masked_select(zeros(3), zeros(3, dtype=r.choice(INTEGERS))),
    "masked_fill": lambda r: zeros(3).masked_fill(zeros(3, dtype=r.choice((torch.int64, torch.float32, torch.uint8))), 1.0),
    "where": lambda r: torch.where(zeros(3, dtype=r.choice((torch.float32, torch.int64))), zeros(3), zeros(3)),
    "masked_fill_overflow": lambda r: zeros(3, dtype=torch.float16).masked_fill(zeros(3) == 0, r.choice((-1e9, -1e20, 1e9, -1e6))),
    "bincount": lambda r: torch.bincount(zeros(3, dtype=r.choice((torch.float32, torch.float64)))),
    "fft_half": lambda r: torch.fft.rfft(zeros(8, dtype=r.choice((torch.bfloat16, torch.float16)))),
    "lerp": lambda r: torch.lerp(zeros(3), zeros(3, dtype=_float(r)), zeros(3)),
    "cdist": lambda r: torch.cdist(zeros(2, 2, dtype=torch.int64), zeros(2, 2)),
    "bilinear": lambda r: F.bilinear(zeros(1, 2, dtype=_float(r)), zeros(1, 2), zeros(3, 2, 2)),
    "arange_autocast": lambda r: torch.randn(3, dtype=r.choice(INTEGERS)),
    "multinomial": lambda r: torch.multinomial(torch.ones(3, dtype=r.choice(INTEGERS)), 1),
    "dropout_integer": lambda r: F.gelu(zeros(3, dtype=r.choice(INTEGERS))),
    "out_dtype": lambda r: torch.add(zeros(3), 1.0, out=zeros(3, dtype=r.choice(INTEGERS))),
    "copy_grad": lambda r: setattr(zeros(3, requires_grad=True), "grad", zeros(3, dtype=_float(r))),
}  # fmt: skip
CORE = frozenset(("linear", "mm", "conv", "embedding", "cross_entropy", "mean", "softmax", "in_place", "index", "bool_minus", "requires_grad_integer", "unsupported_numpy", "lstm", "nll_loss", "gather", "index_put", "bmm", "one_hot", "layer_norm", "linalg_half", "attention"))  # fmt: skip

_NAMES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Byte", "Bool")
_CALLS = ("#2 'mat1' in call to _th_addmm", "#2 'target' in call to _thnn_nll_loss_forward", "#4 'mat1'", "#2 'mat2'", "#2 'weight' in call to _thnn_conv2d_forward", "#3 'mat2' in call to _th_addmm_out", "#3 'index' in call to _th_index_select", "#2 'other'", "#1 'self' in call to _th_dot", "#2 'weight'", "#2 'target'", "#3 'index'", "#2 'batch2'", "#2 'mat2' in call to _th_mm", "#2 'tensor'", "#3 'mat1'")  # fmt: skip
_KERNELS = (
    "addmm_impl_cpu_", "slow_conv2d_cpu", "LayerNormKernelImpl", "baddbmm_with_gemm", "log_softmax_lastdim_kernel_impl", "softmax_lastdim_kernel_impl", "upsample_bilinear2d_out_frame", "threshold_cpu", "mse_cpu", "nll_loss_forward_reduce_cuda_kernel_2d_index", "nll_loss2d_forward_out_frame", "host_softmax",
    "add_cpu/sub_cpu", "rsqrt_cpu", "mul_cpu", "erfinv_vml_cpu", "unfolded2d_copy", "clamp_scalar_cpu", "tril_cpu", "triu_tril_cuda_template", "triu_cuda_template", "arange_cpu", "batch_norm", "max_pool2d", "adaptive_avg_pool2d", "avg_pool2d_out_frame", "upsample_nearest2d_channels_last", "sigmoid_cpu", "exp_vml_cpu",
    "bernoulli_scalar_cpu_", "GeluKernelImpl", "index_select_out_cuda_impl", "cdist_cuda", "lu_cpu", "cholesky_cpu", "svd_cuda", "linalg_vector_norm_cpu", "normal_kernel_cpu", "uniform", "compute_indices_weights_linear", "roi_align_forward_kernel", "nms", "bincount_cpu", "sum_cpu", "mean_cpu", "multinomial_kernel_cuda", "check_uniform_bounds", "leaky_relu_cpu",
    "ctc_loss_cuda", "histogram_cpu", "grid_sampler_2d_cuda", "embedding_dense_backward_cuda", "fmod_cuda", "reflection_pad2d", "cross_cpu", "index_put", "isin_default_cpu", "where_cuda", "im2col_out_cpu", "logsumexp", "silu_cpu", "cumsum_out_cpu", "tanh_vml_cpu", "hardtanh_cpu", "elu_cpu", "smooth_l1_cpu", "binary_cross_entropy", "_amp_foreach_non_finite_check_and_unscale_cuda",
    "fused_dropout", "indexing_backward", "lstm_cell", "RMSNormKernelImpl", "fill_cpu", "topk_cuda", "kthvalue_cpu", "sort_stable", "ger", "dot", "cauchy_", "Max_pool3d", "deformable_im2col", "_thnn_fused_gru_cell_cuda", "lerp_kernel_scalar", "GroupNormKernelImpl", "bitwise_and_cuda", "scaled_dot_product", "copy_", "flip_cuda",
)  # fmt: skip


def _implemented(kernels: tuple[str, ...], types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f"\"{kernel}\" not implemented for '{types[place % len(types)]}'" for place, kernel in enumerate(kernels)
    )


WORDINGS = (
    Wording("not_implemented", "RuntimeError", (*_implemented(_KERNELS[:70], ("Half", "Long", "BFloat16", "Half", "Int", "Bool", "Half", "Byte", "Double")), *_implemented(_KERNELS[:40], ("Int", "Half", "Char", "ComplexFloat", "Float8_e4m3fn"))), core=True),
    Wording("not_implemented_rare", "RuntimeError", (*_implemented(_KERNELS[70:], ("Half", "BFloat16", "Long", "Bool")), "_th_or not supported on CPUType for Float", "_th_index_select not supported on CUDAType for Bool", "_thnn_mse_loss_forward not supported on CPUType for Long", "_thnn_log_softmax_forward is not implemented for type torch.LongTensor", "log_softmax_lastdim_kernel_impl not implemented for 'torch.LongTensor'",
                                                     "_thnn_conv2d_forward is not implemented for type torch.HalfTensor", "_th_addmm_out not supported on CPUType for Half", "thnn_conv2d_forward is not implemented for type torch.ByteTensor", "_addmm not supported on CPUType for Half", "baddbmm__mkl not implemented for 'Half'", "_th_normal not supported on CPUType for Half", "fused_dropout not implemented for 'Long'", "exp not implemented on 'torch.LongTensor'", "_softmax_forward is not implemented for type torch.LongTensor", "sigmoid is not implemented for type torch.LongTensor"), core=True),
    Wording("scalar_type", "RuntimeError", tuple(f"expected scalar type {a} but found {b}" for a, b in (("Float", "Double"), ("Double", "Float"), ("Half", "Float"), ("Float", "Half"), ("Long", "Float"), ("Long", "Int"), ("Float", "Long"), ("Byte", "Float"), ("BFloat16", "Float"), ("Float", "BFloat16"), ("Half", "BFloat16"), ("Bool", "Float"), ("Byte", "Bool"), ("Float", "Byte"), ("BFloat16", "Half"), ("Int", "Long"), ("Long", "Double"), ("Long", "Byte"))), core=True),
    Wording("object_scalar_type", "RuntimeError", tuple(f"Expected object of scalar type {_NAMES[(3 * place) % 5]} but got scalar type {_NAMES[(3 * place + 1 + place % 3) % 8]} for argument {call}" for place, call in enumerate(_CALLS)) + tuple(
        f"Expected object of scalar type {a} but got scalar type {b} for argument {c}" for a, b, c in (("Long", "Float", "#2 'target' in call to _thnn_nll_loss_forward"), ("Float", "Double", "#2 'mat1' in call to _th_addmm"), ("Long", "Int", "#3 'index'"), ("Float", "Double", "#4 'mat1'"), ("Double", "Float", "#2 'weight'"), ("Float", "Long", "#2 'target'"), ("Byte", "Bool", "#2 'other'"), ("Half", "Float", "#2 'mat2' in call to _th_mm"))), core=True),
    Wording("old_type", "RuntimeError", tuple(f"Expected object of type torch.{p}{a}Tensor but found type torch.{p}{b}Tensor for argument {c}" for p, a, b, c in (
        ("", "Float", "Double", "#2 'mat2'"), ("cuda.", "Float", "Double", "#2 'weight'"), ("", "Long", "Float", "#2 'target'"), ("cuda.", "Long", "Float", "#2 'target'"), ("", "Double", "Float", "#2 'mat2'"), ("cuda.", "Long", "Int", "#3 'index'"), ("cuda.", "Half", "Float", "#2 'weight'"), ("", "Float", "Long", "#2 'other'"), ("", "Long", "Int", "#2 'target'"), ("", "Float", "Byte", "#2 'other'"), ("cuda.", "Float", "Half", "#4 'mat1'"), ("cuda.", "Byte", "Bool", "#2 'mask'"), ("", "Long", "Double", "#3 'index'"))), core=True),
    Wording("input_weight_half", "RuntimeError", (
        "Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same", "Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
        "Input type (torch.cuda.DoubleTensor) and weight type (torch.cuda.FloatTensor) should be the same", "Input type (torch.cuda.ByteTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
    ), core=True),
    Wording("input_weight", "RuntimeError", tuple(f"Input type (torch.{x}Tensor) and weight type (torch.{y}Tensor) should be the same" for x, y in (("cuda.Half", "cuda.Float"), ("cuda.Float", "cuda.Half"), ("cuda.Double", "cuda.Float"), ("Double", "Float"), ("Half", "Float"), ("cuda.Byte", "cuda.Float"), ("cuda.Long", "cuda.Float"), ("cuda.BFloat16", "cuda.Float"), ("cuda.Float", "cuda.BFloat16"))), core=True),
    Wording("input_bias", "RuntimeError", tuple(
        f"Input type ({x}) and {what} type ({y}) should be the same" for x, y, what in (("float", "c10::Half", "bias"), ("c10::Half", "float", "bias"), ("double", "float", "bias"), ("float", "double", "weight"), ("c10::BFloat16", "float", "bias"), ("float", "c10::BFloat16", "bias"), ("unsigned char", "float", "bias"), ("long long", "float", "bias"), ("MPSHalfType", "MPSFloatType", "weight"), ("float", "struct c10::Half", "bias"), ("struct c10::Half", "float", "bias"), ("CUDABFloat16Type", "torch.cuda.HalfTensor", "weight"), ("torch.cuda.HalfTensor", "torch.cuda.FloatTensor", "bias"), ("long", "float", "bias"))), core=True),
    Wording("same_dtype", "RuntimeError", (
        "mat1 and mat2 must have the same dtype", *(f"mat1 and mat2 must have the same dtype, but got {a} and {b}" for a, b in (("Float", "Half"), ("Half", "Float"), ("Float", "BFloat16"), ("BFloat16", "Float"), ("Double", "Float"), ("Long", "Float"), ("Half", "BFloat16"), ("Float", "Double"), ("Byte", "Float"), ("Float", "Char"))),
        *(f"expected m1 and m2 to have the same dtype, but got: {a} != {b}" for a, b in (("float", "double"), ("double", "float"), ("float", "c10::Half"), ("c10::Half", "float"), ("c10::BFloat16", "float"), ("float", "c10::BFloat16"), ("long long", "float"), ("struct c10::Half", "float"), ("int", "float"), ("long", "float"))),
        "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half", "expected mat1 and mat2 to have the same dtype, but got: c10::BFloat16 != float", "expected mat1 and mat2 to have the same dtype, but got: double != float", "self and mat2 must have the same dtype, but got Float and Half", "self and mat2 must have the same dtype, but got BFloat16 and Float",
        "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: float and value.dtype: c10::Half instead.", "Expected query, key, and value to have the same dtype, but got query.dtype: c10::BFloat16 key.dtype: float and value.dtype: float instead.", "Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: float and  query.dtype: c10::Half instead.", "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: long int and  query.dtype: float instead.",
        "Expected self.dtype to be equal to src.dtype", "scatter(): Expected self.dtype to be equal to src.dtype", "Index put requires the source and destination dtypes match, got Half for the destination and Float for the source.", "Index put requires the source and destination dtypes match, got Float for the destination and Double for the source.", "Index put requires the source and destination dtypes match, got BFloat16 for the destination and Float for the source.",
        "Input and parameter tensors are not the same dtype, found input tensor with Double and parameter tensor with Float", "Input and parameter tensors are not the same dtype, found input tensor with Half and parameter tensor with Float", "Input and hidden tensors are not the same dtype, found input tensor with Float and hidden tensor with Half", "dot : expected both vectors to have same dtype, but found Float and Double", "both arguments to matmul need to be of the same dtype, but they were Float and Double",
        "mixed dtype (CPU): expect parameter to have scalar type of Float", "mixed dtype (CPU): all the parameters should be the same dtype", "Found dtype Double but expected Float", "Found dtype Long but expected Float", "Found dtype Float but expected Half", "Found dtype Float but expected Double", "Found dtype BFloat16 but expected Float", "expected dtype Double but got dtype Float", "expected dtype Float but got dtype Long", "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)",
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.cuda.FloatTensor instead (while checking arguments for embedding)", "Expected tensor for argument #1 'indices' to have scalar type Long; but got torch.FloatTensor instead (while checking arguments for embedding)", "Expected tensor for argument #1 'indices' to have scalar type Long; but got torch.IntTensor instead (while checking arguments for embedding)", "Expected tensor for argument #1 'indices' to have scalar type Long; but got CPUType instead (while checking arguments for embedding)",
        "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'weight'; but type torch.cuda.HalfTensor does not equal torch.cuda.FloatTensor (while checking arguments for cudnn_batch_norm)", "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'weight'; but type Double does not equal Float (while checking arguments for embedding_bag)",
    ), core=True),
    Wording("result_type", "RuntimeError", (
        *(f"result type {a} can't be cast to the desired output type {b}" for a, b in (("Float", "Long"), ("Float", "Byte"), ("Double", "Long"), ("Float", "Int"), ("Long", "Bool"), ("Float", "Bool"), ("Float", "long int"), ("Float", "__int64"), ("Float", "unsigned char"), ("Long", "Byte"), ("Double", "Int"))), "result type Float can't be cast to Long",
        "Can't convert result type Float to output Long", "can't cast Float to Long: copy_ would lose information", "value cannot be converted to type at::Half without overflow: -1e+09", "value cannot be converted to type at::Half without overflow", "value cannot be converted to type int64_t without overflow: {float}", "value cannot be converted to type at::Half without overflow: -1e+30", "value cannot be converted to type uint8_t without overflow", "value cannot be converted to type int without overflow",
        "Integer division of tensors using div or / is no longer supported, and in a future release div will perform true division as in Python 3. Use true_divide or floor_divide (// in Python) instead.", "Integer division of tensors using div or / is not supported anymore", "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.", "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.", "Negation, the `-` operator, on a bool tensor is not supported.",
        "Can only calculate the mean of floating types. Got Long instead.", "Can only calculate the mean of floating types. Got Byte instead.", "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long", "mean(): input dtype should be either floating point or complex dtypes. Got Long instead.", "mean(): input dtype should be either floating point or complex dtypes. Got Bool instead.", "Only Tensors of floating point dtype can require gradients", "Only Tensors of floating point and complex dtype can require gradients", "only Tensors of floating point dtype can require gradients", "Can only calculate the norm of floating point and complex dtypes. Got Long instead.", "std and var only support floating point and complex dtypes",
    ), core=True),
    Wording("class_target", "RuntimeError", ("one_hot is only applicable to index tensor.", "one_hot is only applicable to index tensor of type LongTensor.", "expected target of type Long, got Float for cross entropy", "Expected floating point type for target with class probabilities, got Long", "expected scalar type Long but found Float for target", "\"nll_loss_out_frame\" not implemented for 'Long'", "Expected dtype int64 for index", "gather(): Expected dtype int64 for index", "scatter(): Expected dtype int64 for index", "index_select(): Expected dtype int32 or int64 for index", "index_copy_(): Expected LongTensor for index", "scatter_add_(): Expected dtype int64 for index",
                                             "repeats has to be Long or Int tensor", "targets should not be none, and must be int64: got float32"), core=True),
    Wording("index_type", "IndexError", ("tensors used as indices must be long, byte or bool tensors", "tensors used as indices must be long or byte tensors", "tensors used as indices must be long, int, byte or bool tensors", "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got float)", "arrays used as indices must be of integer (or boolean) type", "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"), core=True),
    Wording("numpy_types", "TypeError", ("can't convert np.ndarray of type numpy.object_. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool.", "can't convert np.ndarray of type numpy.str_. The only supported types are: float64, float32, float16, int64, int32, int16, int8, uint8, and bool.", "can't convert np.ndarray of type numpy.object_. The only supported types are: double, float, float16, int64, int32, and uint8.", "can't convert np.ndarray of type numpy.uint16. The only supported types are: float64, float32, float16, int64, int32, int16, int8, uint8, and bool.",
                                         "can't convert a given np.ndarray to a tensor - it has an invalid type. The only supported types are: double, float, int64, int32, and uint8.", "can't convert np.ndarray of type numpy.uint32. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool.", "new(): invalid data type 'str'", "new(): invalid data type 'numpy.str_'", "expected np.ndarray (got list)", "ufunc 'isnan' not supported for the input types, and the inputs could not be safely coerced to any supported types according to the casting rule ''safe''",
                                         "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.", "BFloat16 is not supported on MPS", "Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that dtype.", "Cannot cast ufunc 'add' output from dtype('float64') to dtype('int64') with casting rule 'same_kind'", "Cannot handle this data type: (1, 1, 3), <f4", "pic should be Tensor or ndarray of float32. Got float64", "img should be uint8, got torch.float32 dtype instead", "Input tensor should be a float tensor. Got torch.uint8."), core=True),
    Wording("legacy_call", "TypeError", ("torch.addmm received an invalid combination of arguments - got (int, torch.DoubleTensor, int, torch.FloatTensor, torch.FloatTensor, out=torch.DoubleTensor), but expected one of:", "FloatClassNLLCriterion_updateOutput received an invalid combination of arguments - got (int, torch.FloatTensor, torch.FloatTensor, torch.FloatTensor, bool, NoneType, torch.FloatTensor, int), but expected (int state, torch.FloatTensor input, torch.LongTensor target)",
                                         "mul received an invalid combination of arguments - got (torch.FloatTensor), but expected one of: * (float value) didn't match because some of the arguments have invalid types: (torch.FloatTensor) * (torch.DoubleTensor other)", "DoubleSpatialConvolutionMM_updateOutput received an invalid combination of arguments - got (int, torch.DoubleTensor, torch.DoubleTensor, torch.FloatTensor, torch.FloatTensor, int, int)", "expected Double (got Float)", "expected torch.LongTensor (got torch.FloatTensor)", "expected torch.DoubleTensor (got torch.FloatTensor)", "index_select(): argument 'index' must be LongTensor, not FloatTensor",
                                         "embedding(): argument 'indices' (position 2) must be Tensor of integers, not FloatTensor", "nll_loss(): expected LongTensor target", "expected CPU tensor of type DoubleTensor (got FloatTensor)", "cat received an invalid combination of arguments - got (list, int), expected sequence of FloatTensor but found DoubleTensor", "Expected a Tensor of type torch.DoubleTensor but found a type torch.FloatTensor for sequence element {j} in sequence argument at position #1 'tensors'"), core=True),
    Wording("mixed_precision_tools", "ValueError", ("Attempting to unscale FP16 gradients. Make sure trainable parameters are float32", "Attempting to unscale FP16 gradients.", "Attempting to unscale_ FP16 gradients", "Query/Key/Value should either all have the same dtype, or (in the quantized case) Key/Value should have dtype torch.int32\n  query.dtype: torch.float32\n  key.dtype  : torch.float32\n  value.dtype: torch.float16", "Query/Key/Value should all have the same dtype\n  query.dtype: torch.float32\n  key.dtype  : torch.float16\n  value.dtype: torch.float16", "Must flatten tensors with uniform dtype but got torch.float16 and torch.float32", "Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
                                                    "FlashAttention only support fp16 and bf16 data type", "Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype is torch.float32", "Blockwise quantization only supports 16/32-bit floats, but got torch.uint8", "Expected model params to be in fp32 before amp.initialize, found {mod}.weight with type torch.cuda.HalfTensor.", "Found param {mod}.weight with type torch.cuda.HalfTensor, expected torch.cuda.FloatTensor.", "Fused kernel got input dtype torch.float32 but weight dtype torch.float16", "output tensor must have the same type as input tensor", "weight and input must have same dtype torch.float16 vs torch.float32"), core=True),
    Wording("half_cpu", "RuntimeError", ("Input type (torch.FloatTensor) and weight type (torch.HalfTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor", "fp16 is not supported on CPU: \"addmm_impl_cpu_\" not implemented for 'Half'", "Unsupported dtype Half", "tensor type unknown to einsum: half on CPU", "MKLDNN only supports Float, got Half", "mkldnn_convolution: input type Double does not equal weight type Float", "Low precision dtypes not supported. Got Half", "linalg.cholesky: Expected a floating point or complex tensor as input. Got Long", "linalg.inv: Low precision dtypes not supported. Got BFloat16", "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but got a signal size of[{d}, {d}]", "Unsupported dtype BFloat16", "cuFFT doesn't support tensor of type: BFloat16",
                                         "quantile() input tensor must be either float or double dtype", "torch.cumsum: dtype Bool not supported for MPS", "view_as_complex is only supported for float, double and half tensors, but got a tensor of scalar type: BFloat16", "stft requires a floating point input, got Short", "Expected a floating point tensor for input, got torch.int16", "MultiheadAttention: expected query of dtype Float but was Double", "expected a floating-point or complex tensor as input, got Long", "value should be one of int, float or bool dtype")),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of dtype_mismatch."""
    yield from raised_messages(CAUSE, OPERATIONS, rng, 6, core=CORE)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 3)
