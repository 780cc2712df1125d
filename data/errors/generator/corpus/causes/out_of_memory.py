"""Messages of allocations that found no room, on a GPU or in the machine's memory."""
# ruff: noqa: E501  (wordings are kept on one line)

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from corpus.message import Message
from corpus.wordings import Operation, Wording, raised_messages, rendered_messages

CAUSE = "out_of_memory"


def _huge(r: random.Random) -> int:
    """Return a number of elements whose bytes no machine has, and whose product with 8 still fits an int64."""
    return r.randint(10**14, 10**17)


def _square(r: random.Random) -> int:
    return r.randint(10**7, 10**8)


OPERATIONS: dict[str, Operation] = {
    "cpu_zeros": lambda r: r.choice((torch.zeros, torch.ones, torch.empty, torch.rand))(_huge(r)),
    "cpu_randn": lambda r: torch.randn(_square(r), _square(r)),
    "cpu_linear": lambda r: nn.Linear(_square(r), _square(r)),
    "cpu_embedding": lambda r: nn.Embedding(_square(r), _square(r)),
    "cpu_repeat": lambda r: torch.zeros(1).repeat(_huge(r)),
    "cpu_outer": lambda r: torch.ones(1).expand(_huge(r)).clone(),
    "cpu_one_hot": lambda r: torch.nn.functional.one_hot(torch.zeros(1000, dtype=torch.long), _huge(r) // 1000),
    "cpu_broadcast": lambda r: torch.zeros(_square(r) // 100, 1) + torch.zeros(1, _square(r)),
    "cpu_full": lambda r: torch.full((_huge(r),), 1.0),
    "cpu_arange": lambda r: torch.arange(_huge(r)),
    "cpu_eye": lambda r: torch.eye(_square(r)),
    "cpu_conv": lambda r: nn.Conv2d(_square(r), _square(r) // 100, 3),
    "cpu_contiguous": lambda r: torch.zeros(1, 1).expand(_square(r), _square(r)).contiguous(),
    "numpy_zeros": lambda r: np.ones((_square(r), _square(r))),
    "numpy_zeros/2": lambda r: np.empty((r.randint(10**5, 10**6), r.randint(10**6, 10**8), 3), dtype=r.choice(("float64", "uint8", "float32", "int64"))),
}  # fmt: skip

_BUSY = "If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
_EXPAND = "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
_TRIED = "CUDA out of memory. Tried to allocate {amount}"
_OLD = (
    _TRIED + " (GPU {g}; {cap} total capacity; {gib} already allocated; {mib} free; {mib} cached)",
    _TRIED + " (GPU 0; {cap} total capacity; {gib} already allocated; {mib} free; {gib} reserved in total by PyTorch)",
    _TRIED + " (GPU {g}; {cap} total capacity; {gib} already allocated; 0 bytes free; {gib} reserved in total by PyTorch)",
    _TRIED + " (GPU 0; {cap} total capacity; {gib} already allocated; {mib} free; {gib} reserved in total by PyTorch) " + _BUSY,
    _TRIED + " (GPU {g}; {cap} total capacity; {gib} already allocated; {mib} free; {gib} allowed; {gib} reserved in total by PyTorch) " + _BUSY,
    _TRIED + " (malloc at {root}/c10/cuda/CUDACachingAllocator.cpp:{line})",
    _TRIED + " (GPU {g}; {cap} total capacity; {gib} already allocated; {mib} free; {mib} cached) (malloc at {root}/aten/src/THC/THCCachingAllocator.cpp:231)",
)  # fmt: skip
_NEW = (
    _TRIED + ". GPU {g} has a total capacty of {cap} of which {mib} is free. Process {pid} has {gib} memory in use. Of the allocated memory {gib} is allocated by PyTorch, and {mib} is reserved by PyTorch but unallocated. " + _BUSY.replace("memory is", "but unallocated memory is").replace(">> allocated memory", "large"),
    _TRIED + ". GPU 0 has a total capacity of {cap} of which {mib} is free. Including non-PyTorch memory, this process has {gib} memory in use. Of the allocated memory {gib} is allocated by PyTorch, and {mib} is reserved by PyTorch but unallocated. " + _EXPAND,
    _TRIED + ". GPU {g} has a total capacity of {cap} of which {mib} is free. Process {pid} has {gib} memory in use. Process {pid} has {gib} memory in use. Of the allocated memory {gib} is allocated by PyTorch, and {mib} is reserved by PyTorch but unallocated.",
    _TRIED + ". GPU ",
    _TRIED + ".",
    _TRIED + ". GPU {g} has a total capacity of {cap} of which {mib} is free. Including non-PyTorch memory, this process has {gib} memory in use. " + _EXPAND.replace("CUDA_", ""),
)  # fmt: skip
WORDINGS = (
    Wording("cuda_1x", "RuntimeError", _OLD, core=True),
    Wording("cuda_1x_class", "torch.cuda.OutOfMemoryError", _OLD[1:5], core=True),
    Wording("cuda_2x", "torch.cuda.OutOfMemoryError", _NEW, core=True),
    Wording("cuda_25", "torch.OutOfMemoryError", _NEW, core=True),
    Wording("cuda_short", "RuntimeError", ("CUDA out of memory.", "CUDA out of memory", "CUDA error: out of memory", "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.", "cuda runtime error (2) : out of memory at {root}/aten/src/THC/generic/THCStorage.cu:58", "cuda runtime error (2) : out of memory at {root}/torch/lib/THC/generic/THCStorage.cu:{line}",
                                           "cuda runtime error (2) : out of memory at {root}/aten/src/THC/THCTensorCopy.cu:{line}", "CUDA error: out of memory (allocate at {root}/aten/src/THC/THCCachingAllocator.cpp:{line})", "CUDA out of memory. Tried to allocate {amount}", "[enforce fail at context_gpu.cu:{line}] error == cudaSuccess. 2 vs 0. Error at: /pytorch/caffe2/core/context_gpu.cu:{line}: out of memory", "Ran out of GPU memory"), core=True),
    Wording("alloc_failed_create", "RuntimeError", (
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
        "CUBLAS_STATUS_ALLOC_FAILED", "cublas runtime error : resource allocation failed at {root}/aten/src/THC/THCGeneral.cpp:{line}",
    ), core=True),
    Wording("alloc_failed", "RuntimeError", ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cublas runtime error : resource allocation failed at {root}/aten/src/THC/THCGeneral.cpp:{line}", "cublas runtime error : resource allocation failed at {root}/aten/src/THC/THCGeneral.cpp:250", "CUDA error: CUSOLVER_STATUS_ALLOC_FAILED when calling `cusolverDnCreate(handle)`", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasLtMatmul( ltHandle, computeDesc.descriptor(), &alpha_val)`",
                                             "cuFFT error: CUFFT_ALLOC_FAILED", "Unable to find a valid cuDNN algorithm to run convolution", "FIND was unable to find an engine to execute this computation: out of workspace memory", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR (out of memory)", "CURAND_STATUS_ALLOCATION_FAILED", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED (createCuDNNHandle at {root}/aten/src/ATen/cudnn/Handle.cpp:9)", "CUDA error: CUSPARSE_STATUS_ALLOC_FAILED when calling cusparseCreate(handle)"), core=True),
    Wording("mps", "RuntimeError", ("MPS backend out of memory (MPS allocated: {gib}, other allocations: {mib}, max allowed: 18.13 GB). Tried to allocate {amount} on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).", "MPS backend out of memory (MPS allocated: 5.05 GB, other allocations: 2.29 GB, max allowed: 6.77 GB). Tried to allocate 1024.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
                                    "MPS backend out of memory (MPS allocated: {gib}, other allocations: {gib}, max allowed: 9.07 GB). Tried to allocate 256 bytes on shared pool.", "Invalid buffer size: {gib}", "Invalid buffer size: 25.00 GB", "Command buffer exited with error status: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", "MPS backend out of memory"), core=True),
    Wording("cpu_allocator", "RuntimeError", ("[enforce fail at alloc_cpu.cpp:{line}] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory)", "[enforce fail at CPUAllocator.cpp:{line}] . DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory)", "[enforce fail at ..\\c10\\core\\CPUAllocator.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate {bytes} bytes. Buy new RAM!",
                                              "[enforce fail at C:\\actions-runner\\_work\\pytorch\\pytorch\\builder\\windows\\pytorch\\c10\\core\\impl\\alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate {bytes} bytes.", "$ Torch: not enough memory: you tried to allocate {g}GB. Buy new RAM! at {root}/aten/src/TH/THGeneral.cpp:204", "$ Torch: not enough memory: you tried to allocate 0GB. Buy new RAM! at {root}/torch/lib/TH/THGeneral.c:{line}", "DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory)", "DefaultCPUAllocator: not enough memory: you tried to allocate {bytes} bytes.",
                                              "[enforce fail at CPUAllocator.cpp:64] . DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory) (no backtrace available)", "unable to mmap {bytes} bytes from file </data/model.safetensors>: Cannot allocate memory (12)", "Storage size calculation overflowed with sizes=[{big}, {big}, {big}]"), core=True),
    Wording("numpy_memory", "numpy.core._exceptions._ArrayMemoryError", ("Unable to allocate {gib} for an array with shape ({big}, {d}) and data type float32", "Unable to allocate {gib} for an array with shape ({big}, {d}, {d}) and data type float64", "Unable to allocate {mib} for an array with shape ({big},) and data type int64"), core=True),
    Wording("memory_error", "MemoryError", ("Unable to allocate {gib} for an array with shape ({big}, {d}) and data type float64", "Unable to allocate array with shape ({big}, {d}) and data type uint8", "std::bad_alloc", "bad allocation", "Unable to allocate {gib} for an array with shape ({big}, {d}, {d}, 3) and data type uint8", "CUDA ran out of memory while building the batch", "MemoryError: out of memory while reading {file}"), core=True),
    Wording("os_memory", "OSError", ("[Errno 12] Cannot allocate memory", "[Errno 12] Cannot allocate memory: os.fork() in _execute_child", "[Errno 12] Cannot allocate memory: 'train_{b}.npy'", "The paging file is too small for this operation to complete. (os error 1455)", "[WinError 8] Not enough memory resources are available to process this command"), core=True),
    Wording("killed", "", ("Killed", "Killed: 9 (out of memory)", "oom-kill event in StepId={big}.0. Some of the step tasks have been OOM Killed.", "slurmstepd: error: Detected {g} oom-kill event(s) in StepId={big}.batch. Some of your processes may have been killed by the cgroup out-of-memory handler.", "Out of memory: Killed process {pid} (python) total-vm:{big}kB, anon-rss:{big}kB, file-rss:{b}kB", "[{big}.{b}] Out of memory: Kill process {pid} (python3) score {d} or sacrifice child",
                           "Last State: Terminated  Reason: OOMKilled  Exit Code: 137", "OOMKilled: container exceeded its memory limit (exit code 137)", "line {line}: {pid} Killed                  python train.py", "Your notebook tried to allocate more memory than is available. It has restarted.", "Your session crashed after using all available RAM.", "process finished with exit code 137 (interrupted by signal 9: SIGKILL), memory usage was {gib}", "Memory cgroup out of memory: Killed process {pid} (python)", "{pid} killed     python main.py --batch_size {b} (oom)"), core=True),
    Wording("xla_jax", "RuntimeError", ("RESOURCE_EXHAUSTED: Out of memory allocating {bytes} bytes.", "Resource exhausted: Ran out of memory in memory space hbm. Used {gib} of {cap} hbm. Exceeded hbm capacity by {mib}.", "XPU out of memory. Tried to allocate {amount} (GPU 0; {cap} total capacity; {gib} already allocated; {gib} reserved in total by PyTorch)", "HIP out of memory. Tried to allocate {amount} (GPU 0; {cap} total capacity; {gib} already allocated; {mib} free; {gib} reserved in total by PyTorch)", "HIP out of memory. Tried to allocate {amount}. GPU 0 has a total capacity of {cap} of which {mib} is free.", "NPU out of memory. Tried to allocate {amount} (NPU 0; {cap} total capacity; {gib} already allocated; {mib} free; {gib} reserved in total by PyTorch)", "Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)", "[Native] XPU out of memory, please use `empty_cache` to release all unoccupied cached memory.", "Could not allocate tensor with {bytes} bytes. There is not enough GPU video memory available!"), core=True),
    Wording("serving", "ValueError", ("No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", "The model's max seq len ({n}) is larger than the maximum number of tokens that can be stored in KV cache ({d}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", "Free memory on device ({gib}/{cap}) on startup is less than desired GPU memory utilization (0.9, {gib}). Decrease GPU memory utilization or reduce GPU memory used by other processes.", "Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the quantized model.", "Not enough memory. Please try to increase --mem-fraction-static.", "Engine failed: out of device memory while profiling, {gib} needed, {mib} free"), core=True),
    Wording("cpp_oom", "", ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried to allocate {amount}. GPU {g} has a total capacity of {cap} of which {mib} is free.", "THCudaCheck FAIL file={root}/aten/src/THC/generic/THCStorage.cu line=58 error=2 : out of memory", "THCudaCheck FAIL file={root}/torch/lib/THC/generic/THCStorage.cu line={line} error=2 : out of memory", "CUDA error 2 at {root}/csrc/ops.cu line {line}: out of memory", "nvrtc: error: failed to allocate memory", "cudaErrorMemoryAllocation: out of memory", "CUDA driver error: out of memory", "Error no kernel memory: out of memory in file ops.cu at line {line}", "Warning: ran out of memory with exception: CUDA out of memory. Tried to allocate {amount};\n Skipping batch", "OOM during optimization, irrecoverable", "ggml_cuda_pool_malloc: failed to allocate {mib}: cudaMalloc failed: out of memory"), core=True),
    Wording("cuda_graph_oom", "RuntimeError", ("CUDA error: out of memory while capturing a graph", "Failed to CUDA malloc {bytes} bytes", "Allocation of {bytes} bytes on device cuda:{g} failed: out of memory", "cuda memory allocation of {gib} failed, {mib} free of {cap}", "cudaMalloc failed: out of memory", "failed to allocate {gib} on the device: out of memory ({cap} in total)", "insufficient GPU memory: need {gib}, available {mib}", "Exceeded memory limit while allocating {amount} (limit {cap})", "GPU is out of memory. Please use a smaller batch size")),
    Wording("pinned_oom", "RuntimeError", ("cuda runtime error (2) : out of memory at {root}/aten/src/THC/THCCachingHostAllocator.cpp:{line}", "CUDA error: out of memory at pin_memory: could not allocate {bytes} bytes of host memory", "cudaHostAlloc failed: out of memory ({bytes} bytes)", "[Errno 12] Cannot allocate memory while pinning a buffer of {bytes} bytes", "cuda runtime error (2) : out of memory at {root}/aten/src/THC/THCTensorRandom.cu:25", "Host allocation of {gib} failed: not enough RAM")),
    Wording("hint_oom", "RuntimeError", ("CUDA out of memory occurred when warming up sampler with {d} dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.", "CUDA out of memory. Try to reduce the batch size, which is now {b}.", "Allocation on device {g} would exceed allowed memory. (out of memory)\nCurrently allocated     : {gib}\nRequested               : {mib}\nDevice limit            : {cap}\nFree (according to CUDA): 0 bytes\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB", "Allocation on device", "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : {gib}\nRequested               : {mib}\nDevice limit            : {cap}", "No executable batch size found, reached zero.")),
)  # fmt: skip


def messages(rng: random.Random) -> Iterator[Message]:
    """Yield the messages of out_of_memory."""
    yield from raised_messages(CAUSE, OPERATIONS, rng, 6)
    yield from rendered_messages(CAUSE, WORDINGS, rng, 8)
