"""Known wordings of loader workers that did not start, were killed, ran out of shared memory or of file handles."""

# ruff: noqa: E501
# Wordings stand as they are printed, one a line: folding them would hide what is compared.

from __future__ import annotations

from corpus.message import Frame
from corpus.slots import Slot, Wording, between, one_of

SLOTS: dict[str, Slot] = {
    "pid": between(18, 3_900_000),
    "pids": one_of("4068", "12776, 14608", "18040, 2984, 9908, 20556", "31512, 31513", "6512, 10084, 14208, 7516, 2368, 9004"),
    "worker": between(0, 15),
    "num": one_of(1, 2, 4, 8, 12, 16, 32),
    "cpus": one_of(1, 2, 4, 6, 8),
    "seconds": one_of(5, 10, 30, 60, 120, 180, 600, 1800),
    "signal": one_of("Killed", "Segmentation fault", "Aborted", "Terminated", "Illegal instruction", "Floating point exception", "Hangup", "Interrupt", "Unknown signal 42"),
    "bytes": one_of(154_140_672, 4_718_592, 67_108_864, 602_112, 12_582_912, 1_073_741_824, 80, 38_535_168, 1_966_080),
    "shm": one_of("/torch_4068_3139741163_61", "/torch_31512_2277849501", "/torch_176_804289383_1024", "/torch_90714_1714636915_0", "/torch_25_846930886"),
    "errno": one_of("No such file or directory (2)", "Permission denied (13)", "Too many open files (24)", "File exists (17)", "No space left on device (28)"),
    "dir": one_of("/tmp/pymp-8k2l0xw_", "/tmp/pymp-jo1ha5mk", "/tmp/torch_31337_x", "/tmp/pymp-c3wz4s0v"),
    "object": one_of("main.<locals>.<lambda>", "get_loader.<locals>.collate", "train.<locals>.worker_init_fn", "DataModule.setup.<locals>.<lambda>", "build_dataset.<locals>.transform", "MyDataset.__init__.<locals>.<lambda>", "seed_worker.<locals>.init", "create_transforms.<locals>.to_rgb"),
    "attribute": one_of("CustomDataset", "collate_fn", "MyDataset", "ImageDataset", "worker_init_fn", "ToTensorV3", "FaceDataset", "<lambda>"),
    "module": one_of("<module '__main__' (built-in)>", "<module '__main__' (<class '_frozen_importlib.BuiltinImporter'>)>"),
    "function": one_of("<function <lambda> at 0x7f0c5d1e3b80>", "<function <lambda> at 0x000001C5A1B40D30>", "<function collate at 0x0000020F5B7C3E18>", "<function Lambda at 0x11d7c0af0>"),
    "unpicklable": one_of("_thread.lock", "_thread.RLock", "module", "generator", "_io.BufferedReader", "_io.TextIOWrapper", "Environment", "sqlite3.Connection", "h5py", "socket", "SwigPyObject", "VideoReader", "_cffi_backend.CDataGCP", "queue.SimpleQueue", "torch._C.Generator", "MongoClient"),
    "cls": one_of("OSError", "RuntimeError", "MemoryError", "FileNotFoundError"),
    "address": one_of("0x7f85c6d2e160", "0x7fc7fa34f7f0", "0x7f0a1bd3c700", "0x7efd2b1c8d90"),
    "path": one_of("/usr/lib/python3.6", "/opt/conda/lib/python3.8", "/home/user/anaconda3/envs/torch/lib/python3.9", "C:\\Users\\user\\anaconda3\\lib", "C:\\Python310\\lib"),
    "dll": one_of("cudnn_cnn_infer64_8.dll", "caffe2_detectron_ops.dll", "cufft64_10.dll", "cublas64_11.dll", "nvfuser_codegen.dll", "shm.dll"),
    "exitcode": one_of(1, -9, -11, -7, 255),
}  # fmt: skip

_GET = (
    Frame("torch/utils/data/dataloader.py", 1186, "_next_data", "idx, data = self._get_data()"),
    Frame("torch/utils/data/dataloader.py", 1003, "_try_get_data", "raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids_str)) from e"),
)  # fmt: skip
_SIGNAL = (
    Frame("torch/utils/data/dataloader.py", 761, "_try_get_data", "data = self._data_queue.get(timeout=timeout)"),
    Frame("torch/utils/data/_utils/signal_handling.py", 66, "handler", "_error_if_any_worker_fails()"),
)
_SPAWN = (
    Frame("torch/utils/data/dataloader.py", 918, "__init__", "w.start()"),
    Frame("{lib}/multiprocessing/context.py", 326, "_Popen", "return Popen(process_obj)"),
    Frame("{lib}/multiprocessing/popen_spawn_win32.py", 93, "__init__", "reduction.dump(process_obj, to_child)"),
    Frame("{lib}/multiprocessing/reduction.py", 60, "dump", "ForkingPickler(file, protocol).dump(obj)"),
)
_SPAWN_CHILD = (
    Frame("{lib}/multiprocessing/spawn.py", 116, "spawn_main", "exitcode = _main(fd, parent_sentinel)"),
    Frame("{lib}/multiprocessing/spawn.py", 126, "_main", "self = reduction.pickle.load(from_parent)"),
)
_FORK = (
    Frame("{lib}/multiprocessing/popen_fork.py", 19, "__init__", "self._launch(process_obj)"),
    Frame("{lib}/multiprocessing/popen_fork.py", 66, "_launch", "self.pid = os.fork()"),
)
_REDUCE = (
    Frame("{lib}/multiprocessing/queues.py", 234, "_feed", "obj = _ForkingPickler.dumps(obj)"),
    Frame("torch/multiprocessing/reductions.py", 328, "reduce_storage", "fd, size = storage._share_fd_()"),
)
_REBUILD = (
    Frame("torch/multiprocessing/reductions.py", 294, "rebuild_storage_fd", "fd = df.detach()"),
    Frame("{lib}/multiprocessing/resource_sharer.py", 58, "detach", "return reduction.recv_handle(conn)"),
    Frame("{lib}/multiprocessing/connection.py", 508, "Client", "answer_challenge(c, authkey)"),
)
_CUDA = (Frame("torch/cuda/__init__.py", 207, "_lazy_init", '"Cannot re-initialize CUDA in forked subprocess. To use CUDA with "'),)  # fmt: skip

KILLED = (
    Wording("killed by signal", "RuntimeError", "DataLoader worker (pid {pid}) is killed by signal: Killed. ", core=True, frames=_SIGNAL),
    Wording("killed by signal", "RuntimeError", "DataLoader worker (pid {pid}) is killed by signal: Segmentation fault. ", core=True, frames=_SIGNAL),
    Wording("killed by signal", "RuntimeError", "DataLoader worker (pid {pid}) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.", core=True, frames=_SIGNAL),
    Wording("killed by another signal", "RuntimeError", "DataLoader worker (pid {pid}) is killed by signal: {signal}. ", frames=_SIGNAL),
    Wording("killed by another signal", "RuntimeError", "DataLoader worker (pid {pid}) is killed by signal: {signal}. Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."),
    Wording("killed old", "RuntimeError", "DataLoader worker (pid {pid}) exited unexpectedly with exit code {exitcode}. Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace.", core=True, frames=_SIGNAL),
    Wording("exited unexpectedly", "RuntimeError", "DataLoader worker (pid(s) {pids}) exited unexpectedly", core=True, frames=_GET),
    Wording("exited unexpectedly", "RuntimeError", "DataLoader worker (pid {pid}) exited unexpectedly with exit code {exitcode}.", core=True, frames=_SIGNAL),
    Wording("bus error log", "", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n", core=True),
    Wording("segfault log", "", "ERROR: Unexpected segmentation fault encountered in worker.\n"),
    Wording("segfault log", "", "ERROR: Unexpected segmentation fault encountered in worker.\nTraceback (most recent call last):\n  File \"{path}/multiprocessing/queues.py\", line 113, in get\n    if not self._poll(timeout):\nRuntimeError: DataLoader worker (pid {pid}) is killed by signal: Segmentation fault."),
    Wording("floating point log", "", "ERROR: Unexpected floating-point exception encountered in worker.\n"),
    Wording("malloc in a worker", "", "malloc(): memory corruption\nERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly"),
    Wording("malloc in a worker", "", "*** Error in `python': double free or corruption (!prev): {address} ***\nRuntimeError: DataLoader worker (pid {pid}) is killed by signal: Aborted."),
    Wording("atexit of a killed worker", "", "Exception ignored in atexit callback: <function _MultiProcessingDataLoaderIter._clean_up_worker at {address}>\nTraceback (most recent call last):\n  File \"torch/utils/data/dataloader.py\", line 1475, in _clean_up_worker\n    w.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)\nRuntimeError: DataLoader worker (pid {pid}) is killed by signal: {signal}."),
    Wording("del of a killed iterator", "", "Exception ignored in: <bound method _DataLoaderIter.__del__ of <torch.utils.data.dataloader._DataLoaderIter object at {address}>>\nTraceback (most recent call last):\n  File \"torch/utils/data/dataloader.py\", line 399, in __del__\n    self._shutdown_workers()\n  File \"{path}/multiprocessing/connection.py\", line 493, in Client\n    answer_challenge(c, authkey)\nConnectionResetError: [Errno 104] Connection reset by peer"),
    Wording("del of a killed iterator", "", "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at {address}>\nTraceback (most recent call last):\n  File \"torch/utils/data/dataloader.py\", line 1328, in __del__\n    self._shutdown_workers()\n  File \"{path}/multiprocessing/process.py\", line 160, in is_alive\n    assert self._parent_pid == os.getpid(), 'can only test a child process'\nAssertionError: can only test a child process"),
    Wording("timed out", "RuntimeError", "DataLoader timed out after {seconds} seconds", core=True, frames=_GET[:1]),
    Wording("pin memory thread", "RuntimeError", "Pin memory thread exited unexpectedly", frames=_GET[:1]),
    Wording("pin memory thread", "RuntimeError", "Caught {cls} in pin memory thread for device {worker}.\nOriginal Traceback (most recent call last):\n  File \"torch/utils/data/_utils/pin_memory.py\", line 31, in do_one_step\n    r = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)\n  File \"torch/multiprocessing/reductions.py\", line 305, in rebuild_storage_fd\n    fd = df.detach()\nConnectionRefusedError: [Errno 111] Connection refused"),
    Wording("pin memory thread", "", "Exception in thread Thread-{num}:\nTraceback (most recent call last):\n  File \"torch/utils/data/_utils/pin_memory.py\", line 25, in _pin_memory_loop\n    r = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)\n  File \"{path}/multiprocessing/connection.py\", line 492, in Client\n    c = SocketClient(address)\nFileNotFoundError: [Errno 2] No such file or directory"),
)  # fmt: skip

STARTING = (
    Wording("bootstrapping", "RuntimeError", "\n        An attempt has been made to start a new process before the\n        current process has finished its bootstrapping phase.\n\n        This probably means that you are not using fork to start your\n        child processes and you have forgotten to use the proper idiom\n        in the main module:\n\n            if __name__ == '__main__':\n                freeze_support()\n                ...\n\n        The \"freeze_support()\" line can be omitted if the program\n        is not going to be frozen to produce an executable.", core=True, frames=(Frame("{lib}/multiprocessing/spawn.py", 136, "_check_not_importing_main", "raise RuntimeError('''"),)),
    Wording("broken pipe", "BrokenPipeError", "[Errno 32] Broken pipe", core=True, frames=_SPAWN),
    Wording("child without input", "", "  File \"{path}/multiprocessing/spawn.py\", line 105, in spawn_main\n    exitcode = _main(fd)\n  File \"{path}/multiprocessing/spawn.py\", line 115, in _main\n    self = reduction.pickle.load(from_parent)\nEOFError: Ran out of input", core=True),
    Wording("child without input", "", "  File \"{path}/multiprocessing/popen_spawn_win32.py\", line 65, in __init__\n    reduction.dump(process_obj, to_child)\n  File \"{path}/multiprocessing/reduction.py\", line 60, in dump\n    ForkingPickler(file, protocol).dump(obj)\nBrokenPipeError: [Errno 32] Broken pipe", core=True),
    Wording("child reset", "ConnectionResetError", "[Errno 104] Connection reset by peer", core=True, frames=_REBUILD),
    Wording("child reset", "ConnectionRefusedError", "[Errno 111] Connection refused", core=True, frames=_REBUILD),
    Wording("child file", "FileNotFoundError", "[Errno 2] No such file or directory: '{dir}/listener-0ze72v1u'", frames=_REBUILD),
    Wording("child eof", "EOFError", "\n  File \"{path}/multiprocessing/connection.py\", line 383, in _recv\n    raise EOFError", frames=_REBUILD),
    Wording("child authentication", "multiprocessing.context.AuthenticationError", "digest received was wrong", frames=_REBUILD),
    Wording("reused iterator", "AssertionError", "can only join a child process", frames=_GET[:1]),
    Wording("pickle a local", "AttributeError", "Can't pickle local object '{object}'", core=True, frames=_SPAWN),
    Wording("pickle a local", "AttributeError", "Can't get local object '{object}'", core=True, frames=_SPAWN),
    Wording("pickle a function", "_pickle.PicklingError", "Can't pickle {function}: attribute lookup <lambda> on __main__ failed", core=True, frames=_SPAWN),
    Wording("pickle a function", "_pickle.PicklingError", "Can't pickle {function}: it's not the same object as __main__.collate", core=True, frames=_SPAWN),
    Wording("pickle an object", "TypeError", "cannot pickle '{unpicklable}' object", frames=_SPAWN),
    Wording("pickle an object", "TypeError", "can't pickle {unpicklable} objects", frames=_SPAWN),
    Wording("pickle an hdf5 file", "TypeError", "h5py objects cannot be pickled", frames=_SPAWN),
    Wording("pickle too much", "OverflowError", "cannot serialize a bytes object larger than 4 GiB", frames=_SPAWN),
    Wording("pickle too much", "struct.error", "'i' format requires -2147483648 <= number <= 2147483647", frames=_SPAWN),
    Wording("child lacks attribute", "AttributeError", "Can't get attribute '{attribute}' on {module}", core=True, frames=_SPAWN_CHILD),
    Wording("fork with cuda", "RuntimeError", "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", core=True, frames=_CUDA),
    Wording("fork with cuda", "RuntimeError", "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use Python 3.4+ and the 'spawn' start method", core=True, frames=_CUDA),
    Wording("fork with cuda", "RuntimeError", "Caught RuntimeError in DataLoader worker process {worker}.\nOriginal Traceback (most recent call last):\n  File \"torch/utils/data/_utils/worker.py\", line 287, in _worker_loop\n    data = fetcher.fetch(index)\n  File \"dataset.py\", line 4{cpus}, in __getitem__\n    x = x.to('cuda')\n  File \"torch/cuda/__init__.py\", line 204, in _lazy_init\n    raise RuntimeError(\nRuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method", core=True),
    Wording("cuda in a worker", "RuntimeError", "Caught RuntimeError in DataLoader worker process {worker}.\nOriginal Traceback (most recent call last):\n  File \"torch/utils/data/_utils/worker.py\", line 302, in _worker_loop\n    data = fetcher.fetch(index)\nRuntimeError: CUDA error: initialization error\nCUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace below might be incorrect."),
    Wording("cuda in a worker", "RuntimeError", "cuda runtime error (3) : initialization error at /pytorch/aten/src/THC/THCGeneral.cpp:50", frames=(Frame("torch/utils/data/_utils/worker.py", 99, "_worker_loop", "samples = collate_fn([dataset[i] for i in batch_indices])"),)),
    Wording("cuda tensors shared", "", "[W CudaIPCTypes.cpp:{num}] Producer process has been terminated before all shared CUDA tensors released. See Note [Sharing CUDA tensors]", core=True),
    Wording("start method set", "RuntimeError", "context has already been set", frames=(Frame("{lib}/multiprocessing/context.py", 247, "set_start_method", "raise RuntimeError('context has already been set')"),), core=True),
    Wording("daemon children", "AssertionError", "daemonic processes are not allowed to have children", frames=(Frame("{lib}/multiprocessing/process.py", 118, "start", "'daemonic processes are not allowed to have children'"),)),
    Wording("fork failed", "", "  File \"{path}/multiprocessing/popen_fork.py\", line 70, in _launch\n    self.pid = os.fork()\nOSError: [Errno 12] Cannot allocate memory", core=True),
    Wording("fork failed", "BlockingIOError", "[Errno 11] Resource temporarily unavailable", core=True, frames=_FORK),
    Wording("fork warning", "DeprecationWarning", "This process (pid={pid}) is multi-threaded, use of fork() may lead to deadlocks in the child."),
    Wording("fork warning", "", "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...\nTo disable this warning, you can either:\n\t- Avoid using `tokenizers` before the fork if possible\n\t- Explicitly set the environment variable TOKENIZERS_PARALLELISM=(true | false)"),
    Wording("too many workers", "UserWarning", "This DataLoader will create {num} worker processes in total. Our suggested max number of worker in current system is {cpus}, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary.", core=True),
    Wording("too many workers", "UserWarning", "This DataLoader will create {num} worker processes in total. Our suggested max number of worker in current system is {cpus} (`cpuset` is not taken into account), which is smaller than what this DataLoader is going to create. Please be aware that excessive worker creation might get DataLoader running slow or even freeze", core=True),
    Wording("windows paging file", "OSError", "[WinError 1455] The paging file is too small for this operation to complete. Error loading \"C:\\Users\\user\\anaconda3\\lib\\site-packages\\torch\\lib\\{dll}\" or one of its dependencies.", core=True, frames=_SPAWN_CHILD),
    Wording("windows mapping", "RuntimeError", "Couldn't open shared file mapping: <torch_{pid}_{num}>, error code: <1455>", frames=_REDUCE),
    Wording("windows mapping", "RuntimeError", "Couldn't open shared event: <torch_{pid}_2904184735_{num}_event>, error code: <2>", frames=_REDUCE),
    Wording("windows handle", "PermissionError", "[WinError 5] Access is denied", frames=_SPAWN_CHILD),
    Wording("windows handle", "OSError", "[WinError 87] The parameter is incorrect", frames=_SPAWN_CHILD),
    Wording("windows event", "", "ForkingPickler(file, protocol).dump(obj)\nBrokenPipeError: [Errno 32] Broken pipe\n  File \"{path}\\multiprocessing\\spawn.py\", line 105, in spawn_main\n    exitcode = _main(fd)"),
)  # fmt: skip

SHARED_MEMORY = (
    Wording("too many open files", "OSError", "[Errno 24] Too many open files", core=True, frames=_REDUCE),
    Wording("too many open files", "OSError", "[Errno 24] Too many open files: '{dir}'", core=True, frames=_REDUCE),
    Wording("too many open files", "RuntimeError", "Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or change the sharing strategy by calling `torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code", core=True, frames=_GET[:1]),
    Wording("ancdata", "RuntimeError", "received 0 items of ancdata", core=True, frames=_REBUILD),
    Wording("ancdata", "RuntimeError", "received {num} items of ancdata", frames=_REBUILD, core=True),
    Wording("shared memory object", "RuntimeError", "unable to open shared memory object <{shm}> in read-write mode", core=True, frames=_REDUCE),
    Wording("shared memory object", "RuntimeError", "unable to open shared memory object <{shm}> in read-write mode: {errno}", core=True, frames=_REDUCE),
    Wording("shared memory object", "RuntimeError", "unable to open shared memory object <{shm}> in read/write mode at /pytorch/aten/src/TH/THAllocator.c:342", core=True, frames=_REDUCE),
    Wording("write to shared memory", "RuntimeError", "unable to write to file <{shm}>", core=True, frames=_REDUCE),
    Wording("write to shared memory", "RuntimeError", "unable to write to file <{shm}>: No space left on device (28)", core=True, frames=_REDUCE),
    Wording("write to shared memory", "RuntimeError", "unable to write to file <{shm}> at /opt/conda/conda-bld/pytorch_1549628766161/work/aten/src/TH/THAllocator.cpp:383", core=True, frames=_REDUCE),
    Wording("resize shared memory", "RuntimeError", "unable to resize file <{shm}> to the right size: Invalid argument (22)", frames=_REDUCE),
    Wording("resize shared memory", "RuntimeError", "unable to resize file </{shm}> to the right size at /pytorch/aten/src/TH/THAllocator.cpp:363", frames=_REDUCE),
    Wording("mmap", "RuntimeError", "unable to mmap {bytes} bytes from file <{shm}>: Cannot allocate memory (12)", frames=_REDUCE),
    Wording("mmap", "RuntimeError", "unable to mmap {bytes} bytes from file <filename not specified>: Cannot allocate memory (12)", frames=_REDUCE),
    Wording("mmap", "RuntimeError", "$ Torch: unable to mmap memory: you tried to mmap 0GB. at /pytorch/aten/src/TH/THAllocator.cpp:317", frames=_REDUCE),
    Wording("shared file", "RuntimeError", "could not unlink the shared memory file {shm} : No such file or directory (2)", frames=_REBUILD, core=True),
    Wording("shared file", "RuntimeError", "error executing torch_shm_manager at \"/usr/local/lib/python3.6/dist-packages/torch/bin/torch_shm_manager\" at /pytorch/torch/lib/libshm/core.cpp:99", frames=_REDUCE, core=True),
    Wording("shared file", "RuntimeError", "torch_shm_manager at \"torch/bin/torch_shm_manager\": could not generate a random directory for manager socket", frames=_REDUCE, core=True),
    Wording("share filename", "RuntimeError", "_share_filename_: only available on CPU", frames=_REDUCE),
    Wording("share filename", "RuntimeError", "_share_fd_: only available on CPU", frames=_REDUCE),
    Wording("no space", "OSError", "[Errno 28] No space left on device", core=True, frames=(Frame("{lib}/multiprocessing/heap.py", 81, "__init__", "os.ftruncate(self.fd, size)"),)),
    Wording("no space", "OSError", "[Errno 28] No space left on device: '{dir}'", core=True, frames=_REDUCE),
    Wording("semaphores", "PermissionError", "[Errno 13] Permission denied", frames=(Frame("{lib}/multiprocessing/synchronize.py", 57, "__init__", "sl = self._semlock = _multiprocessing.SemLock("),)),
    Wording("semaphores", "OSError", "[Errno 38] Function not implemented", frames=(Frame("{lib}/multiprocessing/synchronize.py", 59, "__init__", "unlink_now)"),)),
    Wording("leaked semaphores", "UserWarning", "resource_tracker: There appear to be {num} leaked semaphore objects to clean up at shutdown", core=True),
    Wording("leaked semaphores", "UserWarning", "semaphore_tracker: There appear to be {num} leaked semaphores to clean up at shutdown", core=True),
    Wording("non-leaf", "RuntimeError", "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on the queue).", frames=_REDUCE),
    Wording("docker shm", "", "Please note that PyTorch uses shared memory to share data between processes, so if torch multiprocessing is used (e.g. for multithreaded data loaders) the default shared memory segment size that container runs with is not enough, and you should increase shared memory size either with --ipc=host or --shm-size"),
)  # fmt: skip
