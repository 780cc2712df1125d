"""Known wordings of ragged batches: torch 0.x and 1.x, Hugging Face, MONAI, PyG, accelerate, NumPy before 1.24."""

# ruff: noqa: E501
# Wordings stand as they are printed, one a line: folding them would hide what is compared.

from __future__ import annotations

from corpus.message import Frame
from corpus.slots import Slot, Wording, between, one_of

Call = tuple[str, int, str, str]

COLLATE_CALLS: tuple[tuple[Call, ...], ...] = (
    (("@/fetch.py", 54, "fetch", "return self.collate_fn(data)"), ("@/collate.py", 265, "default_collate", "return collate(batch, collate_fn_map=default_collate_fn_map)"), ("@/collate.py", 162, "collate_tensor_fn", "return torch.stack(batch, 0, out=out)")),
    (("@/collate.py", 79, "default_collate", "return [default_collate(samples) for samples in transposed]"), ("@/collate.py", 55, "default_collate", "return torch.stack(batch, 0, out=out)")),
    (("@/collate.py", 74, "default_collate", "return {key: default_collate([d[key] for d in batch]) for key in elem}"), ("@/collate.py", 56, "default_collate", "return torch.stack(batch, 0, out=out)")),
    (("/workspace/data/loader.py", 92, "collate", "clt[k] = torch.stack(v, 0)"),),
    (("dataset.py", 118, "collate_fn", "images = torch.stack(images, dim=0)"),),
    (("utils/datasets.py", 173, "collate_fn", "imgs = torch.stack([resize(img, self.img_size) for img in imgs])"),),
)  # fmt: skip

SLOTS: dict[str, Slot] = {
    "size": one_of(28, 64, 100, 128, 200, 224, 240, 256, 299, 300, 333, 375, 384, 416, 427, 480, 500, 512, 608, 640, 800, 1024, 1333),
    "count": between(1, 64),
    "length": between(3, 1024),
    "dim": between(1, 3),
    "entry": between(1, 31),
    "build": one_of("1533672544752", "1544174967633", "1549628766161", "1556653114079", "1565272279342", "1579022027550"),
    "cpp_line": between(79, 1333),
    "type": one_of("<class 'NoneType'>", "<class 'PIL.Image.Image'>", "<class 'PIL.JpegImagePlugin.JpegImageFile'>", "<class 'NoneType'>", "<class 'object'>"),
    "foreign": one_of("<class 'PIL.PngImagePlugin.PngImageFile'>", "<class 'datasets.arrow_dataset.Batch'>", "<class 'pandas.core.series.Series'>", "<class 'transformers.tokenization_utils_base.BatchEncoding'>", "<class 'torch_geometric.data.data.Data'>", "<class 'scipy.sparse._csr.csr_matrix'>", "<class 'numpy.str_'>", "<class 'open3d.geometry.PointCloud'>", "<class 'decord.ndarray.NDArray'>", "<class 'pandas._libs.tslibs.timestamps.Timestamp'>", "<class 'shapely.geometry.polygon.Polygon'>", "<class 'pathlib.PosixPath'>", "<class 'dgl.heterograph.DGLGraph'>", "<class 'detectron2.structures.instances.Instances'>"),
    "feature": one_of("input_ids", "labels", "attention_mask", "token_type_ids", "pixel_values", "input_features", "label", "answers", "text"),
    "key": one_of("image", "label", "mask", "seg", "input_ids", "boxes", "ct", "keypoints"),
    "kind": one_of("list", "str", "NoneType", "numpy.ndarray", "dict", "tuple", "int"),
    "storage": one_of("Resize.h:183", "../aten/src/ATen/native/Resize.cpp:20", "/pytorch/aten/src/TH/THStorageFunctions.cpp:82", "/opt/conda/conda-bld/pytorch_1646755903507/work/aten/src/ATen/native/Resize.h:183"),
}  # fmt: skip

_COLLATE = (
    Frame("torch/utils/data/_utils/fetch.py", 47, "fetch", "return self.collate_fn(data)"),
    Frame("torch/utils/data/_utils/collate.py", 79, "default_collate", "return [default_collate(samples) for samples in transposed]"),
    Frame("torch/utils/data/_utils/collate.py", 55, "default_collate", "return torch.stack(batch, 0, out=out)"),
)  # fmt: skip
_OLD_COLLATE = (
    Frame("torch/utils/data/dataloader.py", 57, "_worker_loop", "samples = collate_fn([dataset[i] for i in batch_indices])"),
    Frame("torch/utils/data/dataloader.py", 138, "default_collate", "return [default_collate(samples) for samples in transposed]"),
    Frame("torch/utils/data/dataloader.py", 115, "default_collate", "return torch.stack(batch, 0, out=out)"),
)  # fmt: skip
_HF = (
    Frame("transformers/data/data_collator.py", 249, "__call__", "batch = self.tokenizer.pad("),
    Frame("transformers/tokenization_utils_base.py", 2723, "pad", "return BatchEncoding(batch_outputs, tensor_type=return_tensors)"),
    Frame("transformers/tokenization_utils_base.py", 715, "convert_to_tensors", "raise ValueError("),
)  # fmt: skip

WORDINGS = (
    Wording("TH stack", "RuntimeError", "invalid argument 0: Sizes of tensors must match except in dimension 0. Got {size} and {size2} in dimension {dim} at /opt/conda/conda-bld/pytorch_{build}/work/aten/src/TH/generic/THTensorMoreMath.cpp:{cpp_line}", core=True, frames=_COLLATE),
    Wording("TH stack", "RuntimeError", "invalid argument 0: Sizes of tensors must match except in dimension 0. Got {size} and {size2} in dimension {dim} at /pytorch/aten/src/TH/generic/THTensorMoreMath.cpp:{cpp_line}", core=True, frames=_COLLATE),
    Wording("TH stack", "RuntimeError", "invalid argument 0: Sizes of tensors must match except in dimension 0. Got {size} and {size2} in dimension {dim} at c:\\a\\w\\1\\s\\tmp_conda_3.7_{cpp_line}\\conda\\conda-bld\\pytorch_{build}\\work\\aten\\src\\th\\generic/THTensorMath.cpp:3616", core=True, frames=_OLD_COLLATE),
    Wording("TH sizes", "RuntimeError", "inconsistent tensor sizes at /pytorch/torch/lib/TH/generic/THTensorMath.c:{cpp_line}", frames=_OLD_COLLATE),
    Wording("TH sizes", "RuntimeError", "inconsistent tensor sizes at /opt/conda/conda-bld/pytorch_{build}/work/torch/lib/TH/generic/THTensorMath.c:{cpp_line}", frames=_OLD_COLLATE),
    Wording("TH sizes", "RuntimeError", "invalid argument 0: Tensors must have same number of dimensions: got {dim} and 4 at /pytorch/aten/src/TH/generic/THTensorMath.cpp:{cpp_line}", frames=_OLD_COLLATE),
    Wording("resize storage", "RuntimeError", "Trying to resize storage that is not resizable", core=True, frames=_COLLATE),
    Wording("resize storage", "RuntimeError", "Trying to resize storage that is not resizable at {storage}", core=True, frames=_COLLATE),
    Wording("old batch type", "TypeError", "batch must contain tensors, numbers, dicts or lists; found {type}", core=True, frames=_OLD_COLLATE),
    Wording("old batch type", "TypeError", "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type}", core=True, frames=_COLLATE),
    Wording("foreign type", "TypeError", "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {foreign}", frames=_COLLATE),
    Wording("foreign type", "TypeError", "batch must contain tensors, numbers, dicts or lists; found {foreign}", frames=_OLD_COLLATE),
    Wording("hf tensor", "ValueError", "Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length. Perhaps your features (`{feature}` in this case) have excessive nesting (inputs type `list` where type `int` is expected).", core=True, frames=_HF),
    Wording("hf tensor", "ValueError", "Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length.", core=True, frames=_HF),
    Wording("hf tensor", "ValueError", "Unable to create tensor, you should probably activate padding with 'padding=True' to have batched tensors with the same length.", core=True),
    Wording("hf keys", "ValueError", "You should supply an encoding or a list of encodings to this method that includes input_ids, but you provided ['{feature}']", frames=_HF[:2]),
    Wording("out resized", "UserWarning", "An output with one or more elements was resized since it had shape [{size}], which does not match the required output shape [{count}, {size2}]. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. return torch.stack(batch, 0, out=out)", core=True),
    Wording("hf pad token", "ValueError", "Asking to pad but the tokenizer does not have a padding token. Please select a token to use as `pad_token` `(tokenizer.pad_token = tokenizer.eos_token e.g.)` or add a new pad token via `tokenizer.add_special_tokens({{'pad_token': '[PAD]'}})`.", core=True),
    Wording("hf pad token", "ValueError", "This tokenizer does not have a mask token which is necessary for masked language modeling. You should pass `mlm=False` to train on causal language modeling instead.", core=True),
    Wording("hf collator lengths", "ValueError", "expected sequence of length {length} at dim 1 (got {length2})", core=True, frames=(Frame("transformers/data/data_collator.py", 156, "torch_default_data_collator", "batch[k] = torch.tensor([f[k] for f in features])"),)),
    Wording("hf collator resize", "ValueError", "You are attempting to pad samples but the tokenizer you are using ({feature}) does not have a pad token.", core=True),
    Wording("monai hint", "RuntimeError", "stack expects each tensor to be equal size, but got [1, {size}, {size2}] at entry 0 and [1, {size2}, {size}] at entry {entry}\n\nMONAI hint: if your transforms intentionally create images of different shapes, creating your `DataLoader` with `collate_fn=pad_list_data_collate` might solve the problem (check its documentation)."),
    Wording("monai key", "RuntimeError", "Collate error on the key '{key}' of dictionary data.\n\nMONAI hint: if your transforms intentionally create images of different shapes, creating your `DataLoader` with `collate_fn=pad_list_data_collate` might solve the problem (check its documentation)."),
    Wording("monai key", "RuntimeError", "Collate error on the key '{key}' of dictionary data.\n\nMONAI hint: if your transforms intentionally create mixtures of torch Tensor and numpy ndarray, creating your `DataLoader` with `collate_fn=pad_list_data_collate` might solve the problem"),
    Wording("pyg", "TypeError", "DataLoader found invalid type: {foreign}", core=True),
    Wording("pyg", "TypeError", "DataLoader found invalid type: '{foreign}'", core=True),
    Wording("accelerate batches", "RuntimeError", "You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`.either pass `dispatch_batches=False` and have each process fetch its own batch  or pass `split_batches=True`. By doing so, the main process will fetch a full batch and slice it into `num_processes` batches for each process."),
    Wording("accelerate batches", "TypeError", "Can only concatenate tensors but got <class '{kind}'>"),
    Wording("numpy ragged", "ValueError", "setting an array element with a sequence.", core=True),
    Wording("numpy ragged", "ValueError", "setting an array element with a sequence. The requested array has an inhomogeneous shape after {dim} dimensions. The detected shape was ({count},) + inhomogeneous part.", core=True),
    Wording("numpy ragged warning", "numpy.VisibleDeprecationWarning", "Creating an ndarray from ragged nested sequences (which is a list-or-tuple of lists-or-tuples-or ndarrays with different lengths or shapes) is deprecated. If you meant to do this, you must specify 'dtype=object' when creating the ndarray."),
    Wording("equal size", "RuntimeError", "each element in list of batch should be of equal size", core=True, frames=(Frame("torch/utils/data/_utils/collate.py", 82, "default_collate", "raise RuntimeError('each element in list of batch should be of equal size')"),)),
    Wording("stack element", "TypeError", "expected Tensor as element {entry} in argument 0, but got {kind}", core=True),
    Wording("stack pairs", "RuntimeError", "stack expects each tensor to be equal size, but got [{length}] at entry 0 and [{length2}] at entry {entry}", core=True, frames=_COLLATE),
    Wording("stack pairs", "RuntimeError", "stack expects each tensor to be equal size, but got [3, {size}, {size2}] at entry 0 and [3, {size3}, {size4}] at entry {entry}", core=True, frames=_COLLATE),
)  # fmt: skip
