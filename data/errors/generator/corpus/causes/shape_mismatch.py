"""Messages of operations whose tensors' sizes do not go together."""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import random
from collections.abc import Iterator

from corpus.message import Message
from corpus.shape_layers import LAYERS
from corpus.shape_tensors import TENSORS
from corpus.wordings import Wording, raised_messages, rendered_messages

CAUSE = "shape_mismatch"

CORE = frozenset(
    (
        "linear", "conv2d", "conv_dims", "heads", "bmm_dims", "numpy_matmul", "numpy_dot", "numpy_concatenate", "group_norm", "kernel_size", "rnn_input", "rnn_hidden", "layer_norm", "batch_norm", "norm_dims", "loss_broadcast", "bce",
        "bce_logits", "cross_entropy", "cross_entropy_dims", "mm", "matmul", "view", "reshape", "cat", "cat_dims", "broadcast", "einsum", "assign", "mask",
        "too_many_indices", "expand", "bmm", "dim", "split", "unpack", "numpy_broadcast", "numpy_reshape", "permute", "attention", "attention_mask",
    )
)  # fmt: skip
WORDINGS = (
    Wording("old_size_mismatch", "RuntimeError", (
        "size mismatch, m1: [{b} x {d}], m2: [{d} x {d}] at {root}/aten/src/TH/generic/THTensorMath.cpp:{line}",
        "size mismatch, m1: [{b} x {d}], m2: [{d} x {n}]",
        "size mismatch, m1: [{b} x {d}], m2: [{d} x {n}] at {root}/aten/src/THC/generic/THCTensorMathBlas.cu:{line}",
        "size mismatch, m1: [{b} x {d}], m2: [{d} x {n}] at {root}/aten/src\\TH/generic/THTensorMath.cpp:752",
        "size mismatch, get {d}, {d}x{n},{n}",
        "size mismatch, [{b} x {d}], [{n}] at {root}/aten/src/TH/generic/THTensorMath.c:{line}",
    ), core=True),
    Wording("old_inconsistent", "RuntimeError", (
        "inconsistent tensor size, expected tensor [{b} x {d}] and src [{b} x {n}] to have the same number of elements, but got {big} and {n} elements respectively at {root}/torch/lib/TH/generic/THTensorMath.c:{line}",
        "inconsistent tensor size, expected r_ [{d}], t [{d}] and src [{n}] to have the same number of elements, but got {d}, {d} and {n} elements respectively",
        "inconsistent tensor sizes at {root}/aten/src/TH/generic/THTensorMath.cpp:{line}",
        "invalid argument 2: sizes do not match at {root}/aten/src/THC/generated/../THCTensorMathCompareT.cuh:{line}",
        "invalid argument 0: Sizes of tensors must match except in dimension {i}. Got {d} and {n} in dimension {j} at {root}/aten/src/TH/generic/THTensorMath.cpp:{line}",
        "invalid argument 0: Sizes of tensors must match except in dimension 1. Got {b} and {d} in dimension 0 (The offending index is {j}) at {root}/aten/src/THC/generic/THCTensorMath.cu:71",
        "invalid argument 0: Tensors must have same number of dimensions: got {j} and {i} at {root}/aten/src/TH/generic/THTensorMath.cpp:{line}",
        "invalid argument 2: size '[{b} x {d}]' is invalid for input with {big} elements at {root}/aten/src/TH/THStorage.cpp:{line}",
        "invalid argument 6: wrong matrix size at {root}/aten/src/THC/generic/THCTensorMathBlas.cu:494",
        "invalid argument 2: out of range at {root}/torch/lib/TH/generic/THTensor.c:23",
        "matrices expected, got {j}D, 2D tensors at {root}/aten/src/TH/generic/THTensorMath.c:{line}",
        "Expected tensor to have size {b} at dimension {i}, but got size {d} for argument #2 'batch2' (while checking arguments for bmm)",
        "sizes must be non-negative",
        "1D tensors expected, got {j}D, {j}D tensors at {root}/aten/src/TH/generic/THTensorEvenMoreMath.cpp:723",
        "dimension out of range (expected to be in range of [-1, 0], but got {j})",
        "The size of tensor a ({d}) must match the size of tensor b ({n}) at non-singleton dimension {i} at {root}/aten/src/TH/generic/THTensor.c",
    ), core=True),
    Wording("old_conv", "RuntimeError", (
        "Given groups=1, weight[{c}, {c}, {k}, {k}], so expected input{shape4} to have {c} channels, but got {c} channels instead",
        "Given groups=1, weight of size [{c}, {c}, {k}, {k}], expected input{shape4} to have {c} channels, but got {c} channels instead",
        "Given groups=1, weight of size {c} {c} {k} {k}, expected input{shape4} to have {c} channels, but got {c} channels instead",
        "Given input size: ({c}x{k}x{k}). Calculated output size: ({c}x0x0). Output size is too small",
        "Given input size: ({c}x1x{n}). Calculated output size: ({c}x0x{n}). Output size is too small at {root}/aten/src/THNN/generic/SpatialDilatedMaxPooling.c:67",
        "Expected 4-dimensional input for 4-dimensional weight [{c}, {c}, {k}, {k}], but got {j}-dimensional input of size {shape3} instead",
        "Expected 4-dimensional input for 4-dimensional weight {c} {c} {k} {k}, but got 2-dimensional input of size {shape2} instead",
        "Expected 3-dimensional input for 3-dimensional weight [{c}, {c}, {k}], but got {j}-dimensional input of size {shape2} instead",
        "Expected 5-dimensional input for 5-dimensional weight [{c}, {c}, {k}, {k}, {k}], but got 4-dimensional input of size {shape4} instead",
        "expected stride to be a single integer value or a list of {j} values to match the convolution dimensions, but got stride=[1, 1]",
        "Calculated padded input size per channel: ({k} x {k}). Kernel size: ({k} x {k}). Kernel size can't be greater than actual input size",
        "Kernel size can't be greater than actual input size at {root}/aten/src/THNN/generic/SpatialConvolutionMM.c:48",
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: {shape2}",
        "Expected 2D (unbatched) or 3D (batched) input to conv1d, but got input of size: {shape4}",
        "expected 4D input (got {j}D input)", "expected 2D or 3D input (got {k}D input)", "expected 3D input (got 2D input)",
        "Need input of dimension 4 and input.size[1] == {c} but got input to be of shape: {shape4}",
        "Need input.size[1] == {c} but got {c} instead.",
        "running_mean should contain {c} elements not {c}", "weight should contain {c} elements not {c}",
        "non-positive stride is not supported", "Given transposed=1, weight of size [{c}, {c}, 4, 4], expected input{shape4} to have {c} channels, but got {c} channels instead",
        "cuDNN error: CUDNN_STATUS_BAD_PARAM: input and weight channels do not agree, got input {shape4} and weight [{c}, {c}, {k}, {k}]",
    ), core=True),
    Wording("old_loss", "ValueError", (
        "Target and input must have the same number of elements. target nelement ({b}) != input nelement ({d})",
        "Target size (torch.Size({shape1})) must be the same as input size (torch.Size({shape2}))",
        "Using a target size (torch.Size({shape1})) that is different to the input size (torch.Size({shape2})) is deprecated. Please ensure they have the same size.",
        "Using a target size (torch.Size({shape2})) that is different to the input size (torch.Size({shape1})). This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
        "Expected input batch_size ({b}) to match target batch_size ({d}).",
        "Expected target size ({b}, {d}), got torch.Size({shape3})", "Expected target size {shape2}, got {shape3}",
        "Dimension out of range (expected to be in range of [-1, 0], but got 1)",
    ), core=True),
    Wording("old_loss_runtime", "RuntimeError", (
        "multi-target not supported at {root}/aten/src/THNN/generic/ClassNLLCriterion.c:{line}",
        "multi-target not supported at {root}/aten/src/THCUNN/generic/ClassNLLCriterion.cu:16",
        "only batches of spatial targets supported (3D tensors) but got targets of dimension: {k} at {root}/aten/src/THNN/generic/SpatialClassNLLCriterion.c:60",
        "only batches of spatial targets supported (non-empty 3D tensors) but got targets of size: : {shape4}",
        "1only batches of spatial targets supported (3D tensors) but got targets of size: : {shape4}",
        "input and target shapes do not match: input {shape2}, target {shape1} at {root}/aten/src/THNN/generic/MSECriterion.c:12",
        "input and target batch or spatial sizes don't match: target {shape3}, input {shape4} at {root}/aten/src/THCUNN/generic/SpatialClassNLLCriterion.cu:23",
        "size mismatch (got input: {shape2}, target: {shape1})",
        "0D or 1D target tensor expected, multi-target not supported",
        "input has {b} samples but target has {d}", "inconsistent target size: {shape1}", "weight tensor should be defined either for all {c} classes or no classes but got weight tensor of shape: {shape1}",
    ), core=True),
    Wording("shape_invalid", "RuntimeError", (
        "shape '{shape2}' is invalid for input of size {big}", "shape '[-1, {d}]' is invalid for input of size {big}", "shape '{shape4}' is invalid for input of size {big}",
        "invalid argument 2: size '[-1 x {d}]' is invalid for input with {big} elements at {root}/aten/src/TH/THStorage.c:37",
        "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size -1 can be any value and is ambiguous",
        "view size does not fit: shape '[{b}, -1, {d}]' is invalid for input of size {big}",
    ), core=True),
    Wording("tensor_sizes", "RuntimeError", (
        "The size of tensor a ({d}) must match the size of tensor b ({n}) at non-singleton dimension {i}",
        "The expanded size of the tensor ({d}) must match the existing size ({n}) at non-singleton dimension {i}",
        "The expanded size of the tensor ({d}) must match the existing size ({n}) at non-singleton dimension {i}.  Target sizes: {shape2}.  Tensor sizes: {shape1}",
        "The expanded size of the tensor ({d}) must match the existing size ({n}) at non-singleton dimension {i}. at {root}/aten/src/TH/generic/THTensor.c:309",
        "Sizes of tensors must match except in dimension {j}. Got {d} and {n} in dimension {j} (The offending index is 1)",
        "Sizes of tensors must match except in dimension 1. Expected size {d} but got size {n} for tensor number {j} in the list.",
        "Sizes of tensors must match except in dimension 0. Got {d} and {n} (The offending index is 0)",
        "output with shape {shape1} doesn't match the broadcast shape {shape2}", "output with shape [1, {d}, {d}] doesn't match the broadcast shape [3, {d}, {d}]",
        "mat1 and mat2 shapes cannot be multiplied ({b}x{d} and {d}x{n})", "mat1 dim 1 must match mat2 dim 0", "mat1 and mat2 shapes cannot be multiplied ({big}x{d} and {n}x{d})",
        "mat1 and mat2 must match, ({b}x{d}) and ({n}x{d})", "The shape of the mask {shape1} at index 0 does not match the shape of the indexed tensor {shape2} at index 0",
        "shape mismatch: value tensor of shape {shape1} cannot be broadcast to indexing result of shape {shape2}",
        "expected size {shape3} but got {shape3}", "batch1 and batch2 must have same number of batches, got {b} and {d}",
        "Expected size for first two dimensions of batch2 tensor to be: [{b}, {d}] but got: [{b}, {n}].",
        "Tensors must have same number of dimensions: got {j} and 4", "self must be a matrix", "mat2 must be a matrix, got {j}-D tensor", "vector + matrix @ vector expected, got 1, 2, 3",
        "number of dims don't match in permute", "input.size(-1) must be equal to input_size. Expected {d}, got {n}", "input must have 3 dimensions, got {j}",
        "Expected hidden[0] size (1, {b}, {d}), got (1, {n}, {d})", "Expected hidden size ({j}, {b}, {d}), got {shape3}", "Expected hidden[0] size ({j}, {b}, {d}), got [{j}, {n}, {d}]",
        "einsum(): subscript j has size {d} for operand 1 which does not broadcast with previously seen size {n}", "einsum() operand 0 has too few dimensions ({j})",
    ), core=True),
    Wording("sklearn_shape", "ValueError", (
        "Found input variables with inconsistent numbers of samples: [{b}, {d}]", "X has {d} features, but LinearRegression is expecting {n} features as input",
        "Expected 2D array, got 1D array instead", "y_true and y_pred have different number of output ({j}!={n})", "Classification metrics can't handle arrays of sizes {d} and {n}",
    )),
    Wording("numpy_shape", "ValueError", (
        "could not broadcast input array from shape ({d},{d},3) into shape ({d},{d})", "cannot reshape array of size {big} into shape ({b},{d})",
        "operands could not be broadcast together with shapes ({d},{n}) ({n},{d})", "all the input array dimensions for the concatenation axis must match exactly, but along dimension {i}, the array at index 0 has size {d} and the array at index 1 has size {n}",
        "shapes ({b},{d}) and ({n},{d}) not aligned: {d} (dim 1) != {n} (dim 0)", "axes don't match array", "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) (size {d} is different from {n})",
    ), core=True),
    Wording("library_shape", "ValueError", (
        "Attention mask should be of size ({b}, 1, {d}, {d}), but is torch.Size([{b}, 1, {d}, {n}])", "Attention weights should be of size ({b}, {d}, {n}, {d}), but is torch.Size({shape4})",
        "Expected input batch_size ({b}) to match target batch_size ({d}) in loss_fct(logits.view(-1, self.num_labels), labels.view(-1))",
        "Input image size ({d}*{d}) doesn't match model (224*224).", "Input height ({d}) doesn't match model ({n}).", "Wrong shape for input_ids (shape torch.Size({shape1})) or attention_mask (shape torch.Size({shape3}))",
        "too many values to unpack (expected {j})", "not enough values to unpack (expected 4, got 3)", "not enough values to unpack (expected 3, got 2)",
        "`hidden_states` and `encoder_hidden_states` must agree in the last dimension, got {d} and {n}", "Make sure that the channel dimension of the pixel values match with the one set in the configuration. Expected {c} but got {c}.",
        "pixel_values should have shape (batch, {c}, {d}, {d}), found {shape3}", "The `input_ids` and `inputs_embeds` have different sequence lengths: {d} and {n}",
    ), core=True),
    Wording("assertion_shape", "AssertionError", (
        "was expecting embedding dimension of {d}, but got {n}", "embed_dim must be divisible by num_heads", "input tensor's height ({d}) must be divisible by the patch size ({k})", "torch.Size({shape3}) != torch.Size({shape3})",
        "expecting key_padding_mask shape of ({b}, {d}), but got torch.Size({shape2})", "Size mismatch between tensors", "The shape of the prediction {shape4} and of the target {shape3} differ", "{shape2} vs {shape3}",
        "Input image height {d} and width {n} must be divisible by {b}", "key's sequence and batch dims torch.Size({shape3}) do not match value's torch.Size({shape3})",
    )),
    Wording("compile_like_shape", "RuntimeError", (
        "a and b must have same reduction dim, but got [{b}, {d}] X [{n}, {d}].", "The size of tensor a ({d}) must match the size of tensor b ({n}) at non-singleton dimension {i}) when running call_function <built-in function add>",
        "Attempting to broadcast a dimension of length {d} at -1! Mismatching argument at index 1 had torch.Size({shape2}); but expected shape should be broadcastable to {shape2}", "Cannot view a tensor with shape torch.Size({shape3}) as a tensor with shape ({b}, {d})!",
    )),
    Wording("cudnn_shape", "RuntimeError", (
        "Given normalized_shape=[{d}], expected input with shape [*, {d}], but got input of size{shape3}", "The size of tensor a ({d}) must match the size of tensor b ({n}) at non-singleton dimension {i} in self.pos_embed",
        "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling cublasSgemm, sizes {b}x{d} and {n}x{d} do not fit", "MPSNDArrayMatrixMultiplication: sizes {d} and {n} do not match for contraction",
        "Padding size should be less than the corresponding input dimension, but got: padding ({k}, {k}) at dimension 3 of input {shape4}", "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (3, 3) at dimension 2 of input {shape4}",
        "split_with_sizes expects split_sizes to sum exactly to {d} (input tensor's size at dimension {i}), but got split_sizes=[{d}, {n}]", "start ({d}) + length ({n}) exceeds dimension size ({b}).",
        "Input and output sizes should be greater than 0, but got input (H: {d}, W: {n}) output (H: 0, W: 0)", "Trying to create tensor with negative dimension -{k}: [{b}, -{k}]", "The number of sizes provided ({j}) must be greater or equal to the number of dimensions in the tensor (4)",
        "expand(torch.cuda.FloatTensor{{b}, {d}}, size=[{b}]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)", "unflatten: Provided sizes [{b}, {d}] don't multiply up to the size of dim 1 ({n}) in the input tensor",
        "Expected tensor for argument #1 'input' to have the same size as tensor for argument #2 'grad_output'", "grad_output has shape {shape2} but expected {shape2}",
        "Function {op} returned an invalid gradient at index 0 - got {shape2} but expected shape compatible with {shape2}", "expand(torch.FloatTensor[{b}, {d}], size=[{d}]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
    ), core=True),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of shape_mismatch."""
    yield from raised_messages(CAUSE, LAYERS | TENSORS, rng, 6, core=CORE)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 4)
