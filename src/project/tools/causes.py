"""The classes of the bundled corpus: causes of PyTorch errors, for its data card and for `explain`.

A text with two possible causes belongs to the one that says what to do.
"""
# ruff: noqa: E501  (running text stays on long lines)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """One class of the bundled corpus."""

    name: str
    """The label in the JSONL files."""

    title: str
    """What went wrong, in a few words."""

    meaning: str
    """What the error says, and which texts belong to this class."""

    what_to_do: str
    """What a person does about it, in two to four sentences."""


_ALL = (
    Cause(
        "shape_mismatch",
        "Sizes do not fit",
        "An operation was given tensors whose sizes or numbers of dimensions do not go together: a matrix product, a "
        "convolution's channels, a broadcast, a reshape, a loss whose input and target differ in size.",
        "Print the `.shape` of every tensor that goes into the failing line and compare with what the operation documents. "
        "For a Linear after a convolution, set in_features to the flattened size that really arrives. Check the order of "
        "dimensions (batch first? channels first?) and whether the last, smaller batch is the one that fails.",
    ),
    Cause(
        "device_mismatch",
        "Tensors live on different devices",
        "One operation was given tensors, or a module's weights and its input, on different devices, such as cpu and "
        "cuda:0, or cuda:0 and cuda:1.",
        "Move the model once with `model.to(device)` and every batch with `batch = batch.to(device)`. Create new tensors "
        "inside forward with `device=x.device`. Keep constant tensors as buffers (`register_buffer`), and submodules in "
        "ModuleList rather than in a plain list, so that `.to` moves them too.",
    ),
    Cause(
        "dtype_mismatch",
        "Number types do not fit",
        "An operation was given tensors of types that it does not combine or support: float64 against float32, half "
        "against float, a float where indices must be int64, or an operator without a kernel for that type.",
        "Print `.dtype` of the tensors in the failing line. Data that comes from numpy is float64: convert with `.float()`. "
        "Class labels for cross-entropy and indices must be int64: `.long()`. Under mixed precision run the operation inside "
        "`torch.autocast`, or cast by hand; half precision on a CPU often has no kernel, so use float32 or bfloat16 there.",
    ),
    Cause(
        "label_out_of_range",
        "A label or index is too large or negative",
        "A class label in a loss, an id in an embedding, or an index lies outside its table. On a GPU this shows as a "
        "device-side assert, which belongs here.",
        "Check `labels.min()` and `labels.max()` against the number of classes: they must lie in 0 … num_classes - 1. Check "
        "token ids against num_embeddings. On a GPU, rerun on the CPU or with CUDA_LAUNCH_BLOCKING=1 to see the failing line, "
        "and restart the process: a device-side assert leaves it unusable.",
    ),
    Cause(
        "graph_freed",
        "Backward ran twice through one graph",
        "Backward went a second time through a graph whose saved values were freed by the first time.",
        "Call backward once per forward: add losses that share a graph and call backward on the sum. Detach what is carried "
        "from one step to the next (`hidden = hidden.detach()`). Only if two passes are really meant, give the first "
        "`retain_graph=True`.",
    ),
    Cause(
        "no_grad_graph",
        "Nothing to differentiate",
        "Backward was asked of a tensor without a graph: the output does not require grad, has no grad_fn, or a wanted "
        "input was never used to compute it.",
        "Look for `torch.no_grad()`, inference mode, `.detach()`, `.item()`, `.data`, argmax or numpy between the parameters "
        "and the loss. Check that some parameter has requires_grad=True. With `torch.autograd.grad`, pass "
        "`allow_unused=True` if an input may be unused.",
    ),
    Cause(
        "inplace_modified",
        "A needed value was overwritten in place",
        "A tensor that backward needs, a leaf that requires grad, or a view was changed in place.",
        "Replace in-place operations (`+=`, `relu_()`, `x[i] = …`, `inplace=True`) on tensors of the graph by ones that "
        "make a new tensor, or clone first. Step an optimizer only after every backward that used its weights. "
        "`torch.autograd.set_detect_anomaly(True)` shows the forward line; change parameters under `torch.no_grad()`.",
    ),
    Cause(
        "numpy_requires_grad",
        "A tensor cannot become a numpy array as it is",
        "A conversion to numpy was refused: the tensor requires grad, lies on a GPU, or is of a kind numpy does not have.",
        "Use `x.detach().cpu().numpy()`. For a bfloat16 tensor put `.float()` before it. For lists of losses, collect "
        "`loss.item()` instead of the tensor.",
    ),
    Cause(
        "out_of_memory",
        "Memory ran out",
        "The GPU or the machine had no room for an allocation; also cuDNN, cuBLAS and MPS allocation failures, and a "
        "process killed by the system for its memory.",
        "Make the batch smaller, or the images or sequences shorter, and accumulate gradients to keep the effective batch. "
        "Do not keep graphs alive: collect `loss.item()`, evaluate under `torch.no_grad()`. Mixed precision and activation "
        "checkpointing save more; `nvidia-smi` shows whether another process holds the memory.",
    ),
    Cause(
        "non_contiguous_view",
        "A view needs another memory layout",
        "`view` or another operation needed a tensor that is contiguous, or whose strides it can keep, after a transpose, "
        "permute, slice, expand or flip.",
        "Use `.reshape(…)` instead of `.view(…)`, or call `.contiguous()` first. For numpy arrays with negative strides "
        "call `.copy()` before `torch.from_numpy`.",
    ),
    Cause(
        "batchnorm_single_value",
        "Too few values for a normalisation",
        "A batch, instance or group norm in training mode got one value per channel, often from a last batch of one.",
        "Set `drop_last=True` in the DataLoader or use batches of at least two. Call `model.eval()` for inference. Where "
        "single examples are the rule, use LayerNorm or GroupNorm instead.",
    ),
    Cause(
        "ragged_batch",
        "Examples of a batch cannot be stacked",
        "A collate function could not make one tensor of examples: their sizes, types or numbers of fields differ, one is "
        "None, or a list is ragged.",
        "Give every example the same size (resize, crop, pad) or write a `collate_fn` that pads with `pad_sequence`. "
        "With Hugging Face tokenizers use `padding=True, truncation=True`. Filter out None before stacking.",
    ),
    Cause(
        "worker_failure",
        "A data loader's worker could not start or died",
        "A worker process failed to start, was killed, or could not hand its data over: pickling, fork with CUDA, shared "
        "memory, bus error, too many open files, a missing main guard.",
        "Run once with `num_workers=0` to see the real error. Define dataset and functions at module level (no lambdas), and "
        "put the start of the script under `if __name__ == \"__main__\":`. In a container give more shared memory "
        "(`--shm-size=8g`); keep CUDA out of the workers or use the spawn start method.",
    ),
    Cause(
        "state_dict_mismatch",
        "A checkpoint does not fit the model",
        "Names or sizes in a state dict differ from the model's or the optimizer's: missing, unexpected, or of another size.",
        "Build the model with the settings it was saved with. Strip or add prefixes such as `module.` or `_orig_mod.`. "
        "To take only what fits, drop the changed layers from the dict and load with `strict=False`, then read what "
        "it reports as missing.",
    ),
    Cause(
        "unsafe_checkpoint",
        "A file could not be loaded",
        "Loading a checkpoint file failed: it is corrupt, truncated, no checkpoint at all, refers to classes that are "
        "missing, or was refused because unpickling it could run code.",
        "Check the file's size and download it again; a few hundred bytes are often an error page or a Git LFS pointer. "
        "If `weights_only` refused it and you trust its origin, allow the named classes with "
        "`torch.serialization.add_safe_globals`, or load with `weights_only=False`. Save state dicts rather than whole models.",
    ),
    Cause(
        "distributed_failure",
        "Processes of a distributed run lost each other",
        "A process group could not start or a collective failed: NCCL or Gloo errors, time-outs, ports in use, ranks that "
        "disagree; also parameters that DDP finds unused.",
        "Find the first rank that failed: its error is the cause, the others only lost their peer. Set NCCL_DEBUG=INFO; "
        "check MASTER_ADDR, MASTER_PORT and that every rank reaches the same collectives. For unused parameters in DDP pass "
        "`find_unused_parameters=True` or use all of them in the loss.",
    ),
    Cause(
        "compile_failure",
        "torch.compile, tracing or export failed",
        "A compiler of the model failed: Dynamo, Inductor or Triton, TorchScript, export or ONNX, or the toolchain they need.",
        "Run without compile to make sure that the model itself works. Use `TORCH_LOGS=\"+dynamo\"` to see the line, and "
        "rewrite data-dependent control flow there. Check that a C++ compiler, the Python headers and a Triton that fits "
        "torch are installed.",
    ),
    Cause(
        "nan_or_inf",
        "Values became NaN or infinite",
        "A loss, gradient, input or probability is NaN or infinite, and something refused to go on.",
        "Look for the first bad value: check the inputs with `torch.isfinite`, then use "
        "`torch.autograd.set_detect_anomaly(True)`. Lower the learning rate, clip gradients, put an epsilon into log, sqrt and "
        "divisions. Under fp16 use a GradScaler or bfloat16.",
    ),
    Cause(
        "scalar_backward",
        "Backward needs one number",
        "Backward, or a conversion to a Python number, was asked of a tensor with more than one element.",
        "Reduce the loss first: `loss.mean().backward()` or `reduction=\"mean\"` in the loss. For a non-scalar output pass "
        "`gradient=` of the same shape. `.item()` works on one element only; use `.tolist()` or a reduction for more.",
    ),
    Cause(
        "cuda_unavailable",
        "The GPU cannot be used",
        "No usable GPU backend: torch built without it, no driver or one too old, no device seen, an unsupported "
        "architecture, or its libraries missing. Also a checkpoint saved on a GPU and loaded where there is none.",
        "Run `nvidia-smi`, then `python -c \"import torch; print(torch.__version__, torch.cuda.is_available())\"`. Install the "
        "torch build that fits the driver (the selector on pytorch.org) and check CUDA_VISIBLE_DEVICES. To go on without a "
        "GPU use `device=\"cpu\"`, and `map_location=\"cpu\"` in torch.load.",
    ),
)  # fmt: skip

CAUSES: dict[str, Cause] = {cause.name: cause for cause in _ALL}
