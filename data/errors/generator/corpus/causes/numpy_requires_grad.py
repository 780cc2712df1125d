"""A conversion to numpy was refused: the tensor requires grad, lies on another device, or is of a kind numpy lacks."""
# ruff: noqa: E501  (pools of quoted lines read best unwrapped)

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from corpus import library_frames
from corpus.library_frames import frame
from corpus.message import Frame, Message
from corpus.raising import rendered
from corpus.wordings import Operation, raised_messages

CAUSE = "numpy_requires_grad"
NUM_RAISED = 4

# group, core, exception, wordings; {device}: a device as the release named it
_WORDINGS: tuple[tuple[str, bool, str, tuple[str, ...]], ...] = (
    ("requires_grad", True, "RuntimeError", ("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",)),
    ("requires_grad_var", True, "RuntimeError", (
        "Can't call numpy() on Tensor that requires grad. Use var.detach().numpy() instead.",
        "Can't call numpy() on Variable that requires grad. Use var.detach().numpy() instead.",
    )),
    ("device", True, "TypeError", ("can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",)),
    ("cuda", True, "TypeError", (
        "can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first",
        "can't convert cuda tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    )),
    ("cuda_variable", True, "TypeError", (
        "can't convert CUDA tensor to numpy (it doesn't support GPU arrays). Use .cpu() to move the tensor to host memory first.",
        "Can't convert CUDA tensor to numpy (it doesn't support GPU arrays). Use .cpu() to move the tensor to host memory first.",
    )),
    ("cuda_old", True, "RuntimeError", (
        "numpy conversion for FloatTensor is not supported",
        "numpy conversion for LongTensor is not supported",
        "numpy conversion for HalfTensor is not supported",
    )),
    ("scalar_type", True, "TypeError", (
        "Got unsupported ScalarType BFloat16",
        "Got unsupported ScalarType BFloat16",
        "Got unsupported ScalarType Float8_e4m3fn",
        "Got unsupported ScalarType ComplexHalf",
        "Got unsupported ScalarType QInt8",
    )),
    ("sparse", False, "TypeError", (
        "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.",
        "can't convert Sparse layout tensor to numpy.convert the tensor to a strided layout first.",
        "can't convert SparseCsr layout tensor to numpy. Use Tensor.to_dense() first.",
        "can't convert sparse tensor to numpy. Use Tensor.to_dense() to convert to a dense tensor first.",
        "can't convert Mkldnn layout tensor to numpy. Use Tensor.to_dense() first.",
    )),
    ("bits", False, "RuntimeError", (
        "Can't call numpy() on Tensor that has conjugate bit set. Use tensor.resolve_conj().numpy() instead.",
        "Can't call numpy() on Tensor that has negative bit set. Use tensor.resolve_neg().numpy() instead.",
    )),
    ("array_attribute", True, "AttributeError", ("'Variable' object has no attribute 'numpy'", "'torch.cuda.FloatTensor' object has no attribute 'numpy'")),
    ("dlpack", False, "RuntimeError", (
        "Can't export tensors that require gradient, use tensor.detach()",
    )),
    ("worker_process", False, "torch.multiprocessing.spawn.ProcessRaisedException", (
        "\n\n-- Process 0 terminated with the following error:\nTypeError: can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "\n\n-- Process 1 terminated with the following error:\nRuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
    )),
)  # fmt: skip
_NUM_RENDERED = {"requires_grad": 45, "requires_grad_var": 25, "device": 45, "cuda": 30}
_DEVICES = (
    *["cuda:0"] * 6, "cuda:1", "cuda:2", "cuda:3", "cuda:7", "cuda", "mps:0", "mps:0", "xpu:0", "xla:0", "xla:1",
    "hpu:0", "npu:0", "meta", "privateuseone:0",
)  # fmt: skip
# What asks for an array. Each row: file, function, source line; torch's own frames follow.
_CALLERS: tuple[tuple[str, str, str], ...] = (
    ("numpy/core/_asarray.py", "asarray", "return array(a, dtype, copy=False, order=order)"),
    ("numpy/core/_asarray.py", "asanyarray", "return array(a, dtype, copy=False, order=order, subok=True)"),
    ("numpy/core/shape_base.py", "atleast_2d", "ary = asanyarray(ary)"),
    ("numpy/core/numeric.py", "asarray", "return array(a, dtype, copy=False, order=order)"),
    ("numpy/core/fromnumeric.py", "_wrapit", "return asarray(obj).argmax(axis)"),
    ("numpy/lib/function_base.py", "append", "arr = asanyarray(arr)"),
    ("numpy/core/overrides.py", "concatenate", "return np.concatenate(arrays, axis=0)"),
    ("matplotlib/cbook/__init__.py", "index_of", "y = _check_1d(y)"),
    ("matplotlib/cbook.py", "_check_1d", "return np.atleast_1d(x)"),
    ("matplotlib/axes/_base.py", "_plot_args", "x, y = index_of(xy[-1])"),
    ("matplotlib/image.py", "set_data", "self._A = cbook.safe_masked_invalid(A, copy=True)"),
    ("matplotlib/axes/_axes.py", "imshow", "im.set_data(X)"),
    ("sklearn/utils/validation.py", "check_array", "array = np.asarray(array, order=order, dtype=dtype)"),
    ("sklearn/utils/validation.py", "column_or_1d", "y = np.asarray(y)"),
    ("sklearn/metrics/_classification.py", "accuracy_score", "y_type, y_true, y_pred = _check_targets(y_true, y_pred)"),
    ("sklearn/utils/multiclass.py", "unique_labels", "ys_types = set(type_of_target(x) for x in ys)"),
    ("pandas/core/construction.py", "sanitize_array", "subarr = np.asarray(data)"),
    ("pandas/core/internals/construction.py", "init_dict", "arrays = [com.maybe_iterable_to_list(data[k]) for k in keys]"),
    ("seaborn/_core/data.py", "handle_data_source", "data = pd.DataFrame(data)"),
    ("scipy/spatial/distance.py", "cdist", "XA = np.asarray(XA)"),
    ("scipy/stats/stats.py", "spearmanr", "a, axisout = _chk_asarray(a, axis)"),
    ("scipy/optimize/_lsap.py", "linear_sum_assignment", "cost_matrix = np.asarray(cost_matrix)"),
    ("PIL/Image.py", "fromarray", "arr = obj.__array_interface__"),
    ("torchvision/transforms/functional.py", "to_pil_image", "npimg = np.transpose(pic.numpy(), (1, 2, 0))"),
    ("torch/utils/tensorboard/_convert_np.py", "_prepare_pytorch", "x = x.detach().cpu().numpy()"),
    ("tensorboardX/x2num.py", "make_np", "return np.array([x])"),
    ("transformers/trainer_pt_utils.py", "nested_numpify", "t = t.numpy()"),
    ("datasets/formatting/np_formatter.py", "_tensorize", "return np.asarray(value, **{**default_dtype, **self.np_array_kwargs})"),
    ("gym/spaces/box.py", "contains", "x = np.asarray(x, dtype=self.dtype)"),
    ("stable_baselines3/common/vec_env/dummy_vec_env.py", "step_wait", "self.buf_rews[env_idx] = reward"),
    ("shap/explainers/_deep/deep_pytorch.py", "shap_values", "phis[l][j] = (sample_phis[l][self.data[l].shape[0]:] * (X[l][j: j + 1] - data)).numpy().mean(0)"),
    ("imageio/core/util.py", "asarray", "return np.asarray(array)"),
    ("cv2/mat_wrapper/__init__.py", "__new__", "obj = np.asarray(arr).view(cls)"),
    ("nibabel/arraywriters.py", "__init__", "self._array = np.asanyarray(array)"),
    ("librosa/util/utils.py", "valid_audio", "if not isinstance(y, np.ndarray):"),
    ("soundfile.py", "write", "data = np.asarray(data)"),
    ("ultralytics/utils/metrics.py", "process", "tp = torch.cat(self.stats[\"tp\"]).numpy()"),
    ("pycocotools/cocoeval.py", "evaluate", "dt = np.asarray(dt)"),
)  # fmt: skip
_CORE = frozenset(("numpy", "asarray", "bfloat16"))


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of this cause, drawn from `rng`."""
    yield from raised_messages(CAUSE, _RAISED, rng, NUM_RAISED, core=_CORE)
    for group, is_core, exception, wordings in _WORDINGS:
        for _ in range(_NUM_RENDERED.get(group, 10)):
            text = rng.choice(wordings).format(device=rng.choice(_DEVICES))
            frames = _frames(rng)
            yield rendered(CAUSE, group, text, exception, core=is_core, frames=frames)
    for _ in range(6):
        text = library_frames.replica(
            rng, "TypeError", _WORDINGS[2][3][0].format(device=rng.choice(_DEVICES)), _frames(rng)
        )
        yield rendered(CAUSE, "replica", text, "TypeError")


def _frames(rng: random.Random) -> tuple[Frame, ...]:
    """Return what asked for an array, and `Tensor.__array__` of some release below it, or only one of the two."""
    file, function, source = rng.choice(_CALLERS)
    caller = frame(rng, file, tuple(range(20, 900, 11)), function, source)
    array = rng.choice(
        (
            frame(rng, "torch/tensor.py", (433, 450, 458, 466, 480, 486, 492, 621), "__array__", "return self.numpy()"),
            frame(
                rng,
                "torch/_tensor.py",
                (643, 678, 723, 732, 757, 956, 970, 972, 1030, 1062, 1083, 1087, 1149, 1194, 1225),
                "__array__",
                "return self.numpy()",
            ),
            frame(
                rng,
                "torch/_tensor.py",
                (645, 680, 759, 974, 1032, 1064, 1087, 1151),
                "__array__",
                "return self.numpy().astype(dtype, copy=False)",
            ),
        )
    )
    return rng.choice(((caller, array), (caller, array), (array,), (caller,), ()))


def _leaf(rng: random.Random) -> Tensor:
    shape = [rng.randint(2, 9) for _ in range(rng.randint(1, 3))]
    return torch.ones(shape, dtype=rng.choice((torch.float32, torch.float64, torch.float16)), requires_grad=True)


def _cast(dtypes: tuple[torch.dtype, ...], rng: random.Random) -> object:
    return torch.ones(rng.randint(2, 9)).to(rng.choice(dtypes)).numpy()


def _quantized(rng: random.Random) -> object:
    values = torch.zeros(3, dtype=rng.choice((torch.int8, torch.uint8)))
    return torch._make_per_tensor_quantized_tensor(values, 0.1, 0).numpy()


def _assigned(rng: random.Random) -> None:
    leaf = _leaf(rng)
    np.zeros(leaf.shape)[...] = leaf


def _metric(rng: random.Random) -> object:
    target = np.ones(3)
    return np.mean(np.abs(np.subtract(target, torch.ones(3, requires_grad=True))))


def _conjugated(rng: random.Random) -> Tensor:
    return torch.ones(rng.randint(2, 9), dtype=rng.choice((torch.complex64, torch.complex128))).conj()


_RAISED: dict[str, Operation] = {
    "numpy": lambda rng: _leaf(rng).numpy(),
    "result": lambda rng: (_leaf(rng) * 2).numpy(),
    "asarray": lambda rng: np.asarray(_leaf(rng)),
    "array": lambda rng: np.array([_leaf(rng), _leaf(rng)]),
    "stack": lambda rng: np.stack([torch.ones(2, requires_grad=True)] * rng.randint(2, 5)),
    "concatenate": lambda rng: np.concatenate([torch.ones(2, requires_grad=True)] * rng.randint(2, 5)),
    "append": lambda rng: np.append(np.zeros(3), _leaf(rng)),
    "argmax": lambda rng: np.argmax(_leaf(rng)),
    "ufunc": lambda rng: rng.choice((np.sin, np.exp, np.sqrt, np.abs, np.log))(_leaf(rng)),
    "metric": _metric,
    "assigned": _assigned,
    "scalar": lambda rng: np.float32(_leaf(rng)),
    "dot": lambda rng: np.dot(np.ones(3), torch.ones(3, requires_grad=True)),
    "from_dlpack": lambda rng: np.from_dlpack(_leaf(rng)),
    "transform": lambda rng: torch.func.grad(lambda values: values.numpy().sum())(torch.ones(rng.randint(2, 9))),
    "bfloat16": partial(_cast, (torch.bfloat16,)),
    "float8": partial(_cast, (torch.float8_e4m3fn, torch.float8_e5m2)),
    "quantized": _quantized,
    "conjugate": lambda rng: _conjugated(rng).numpy(),
    "negative": lambda rng: _conjugated(rng).imag.numpy(),
    "sparse_layout": lambda rng: torch.eye(rng.randint(2, 9)).to_sparse().numpy(),
    "sparse_csr": lambda rng: torch.eye(rng.randint(2, 9)).to_sparse_csr().numpy(),
    "mkldnn": lambda rng: torch.eye(rng.randint(2, 9)).to_mkldnn().numpy(),
    "meta": lambda rng: torch.ones(rng.randint(2, 9), device="meta").numpy(),
}
