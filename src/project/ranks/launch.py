"""Starts a command's ranks on this machine, by torch's elastic launcher, and says which of them failed first.

torchrun is the same launcher with a command line of its own. Each rank learns from environment variables who it is.
Lightning's own launchers are not used: a rank that fails there leaves its error between those of the others, and ranks
that are started as functions (`ddp_spawn`, `ddp_fork`) do not hear the signals that their parent gets.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import runpy
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from project.config.trust import as_options
from project.errors import UserError
from project.ranks.environment import COMMAND, is_main, is_rank
from project.ranks.signals import ENDED, Listener

if TYPE_CHECKING:  # torch's launcher is imported where ranks are started, for few commands need it
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

START_METHODS = {"ddp_spawn": "spawn", "ddp_fork": "fork"}
"""How a strategy starts its ranks, as functions; the others run the command line anew."""

RUN_ID = "twinloop-"
"""How the run ids of this launcher begin; those of torchrun do not."""


_FINDINGS = count()
"""Numbers what the main rank finds for all."""


def num_processes(devices: Any, accelerator: str) -> int:
    """How many processes this machine is to run, by `trainer.devices`: a number, a list of devices, or auto.

    Raises:
        UserError: where it is none of these.
    """
    if devices == "auto":
        takes_gpu = accelerator in ("auto", "cuda", "gpu")
        return max(1, torch.cuda.device_count()) if takes_gpu else 1
    if isinstance(devices, list) and devices:
        return len(devices)
    if str(devices).isdecimal() and int(devices) > 0:
        return int(devices)
    raise UserError(f"trainer.devices: {devices!r}; take auto, or the number of processes on each machine")


def check_launched(num_local: int, num_nodes: int) -> None:
    """Hold what was started against what the configuration says.

    Raises:
        UserError: where the numbers of processes differ, or several machines are asked for without torchrun.
    """
    wanted = num_local * num_nodes
    if is_rank():
        started = int(os.environ["WORLD_SIZE"])
        if started != wanted:
            raise UserError(
                f"trainer.devices: {num_local} on each of {num_nodes} machines makes {wanted} processes, but torchrun "
                f"started {started}; give both the same number"
            )
    elif num_nodes > 1:
        raise UserError(
            f"trainer.num_nodes: {num_nodes} machines need a launcher on each; start the command there with "
            f"torchrun --nnodes {num_nodes} --nproc-per-node {num_local} -m project (docs/nodes.md)"
        )


def launch(num_local: int, command: Sequence[str], strategy: str) -> int:
    """Start `python -m project COMMAND` in several processes of this machine; returns the exit code.

    Args:
        num_local: how many.
        command: what follows `python -m project`.
        strategy: `trainer.strategy`, which says how.
    """
    import torch.distributed.launcher.api  # noqa: F401  # for its loggers, which are told next

    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("torch.distributed.elastic", "torch.multiprocessing")):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # `report_first` says it in fewer words
    Listener.here().check()  # a signal whose exception an import has swallowed
    os.environ[COMMAND] = shlex.join(sys.argv[1:])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // num_local)))
    with TemporaryDirectory(prefix=RUN_ID) as folder:
        return _launched(num_local, command, strategy, Path(folder))


def _launched(num_local: int, command: Sequence[str], strategy: str, folder: Path) -> int:
    """What `launch` does, the ranks' errors being recorded below `folder`."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_local,
        run_id=f"{RUN_ID}{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        signals_to_handle="SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1",  # it passes them on, and waits for the ranks
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
        start_method=START_METHODS.get(strategy, "spawn"),
    )
    command = [*command, *as_options()]
    try:
        if strategy in START_METHODS:
            elastic_launch(config, run_rank)(*command)
        else:
            elastic_launch(config, sys.executable)("-m", "project", *command)
    except ChildFailedError as error:
        # Of ranks that are started as functions, torch names one, not always the first. And one that has recorded its
        # error may be aborted afterwards, when torch's threads outlive the interpreter: the error is what counts.
        return report_first(ChildFailedError("project", error.failures | recorded(folder)))
    except SignalException as error:  # the ranks have ended; how, nobody has asked, but for what they recorded
        if failures := recorded(folder):
            return report_first(ChildFailedError("project", failures))
        for file in folder.rglob(ENDED):
            return int(file.read_text(encoding="utf-8"))
        print(f"stopped by {error.sigval.name}: the main rank ended without saving for it", file=sys.stderr)
        return 128 + int(error.sigval)
    return 0


def join_ranks(backend: str, timeout: timedelta) -> None:
    """Connect this rank with the others, as `init_process_group` does."""
    import torch.distributed as dist

    store, rank, size = ranks_store(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store.set_timeout(timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


@cache
def ranks_store() -> PrefixStore:
    """Where the ranks of this start leave each other word, before they are connected as well.

    Under a name of its own for each start of the ranks: torchrun keeps one store for all of them (torch 2.13), and
    restarted ranks would look for each other at the addresses of those that failed.
    """
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return PrefixStore(f"start_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def found_by_main(find: Callable[[], str]) -> str:
    """What the main rank finds, in every rank: they might not all find the same, since files change meanwhile.

    All ranks call this equally often; `find` is called in the main one alone.

    Raises:
        UserError: in every rank, where `find` raised.
    """
    if not is_rank():
        return find()
    store, key = ranks_store(), f"found by the main rank, {next(_FINDINGS)}"
    if is_main():
        tells = {}
        try:
            tells["found"] = find()
        except BaseException as error:
            tells["error"] = str(error) or type(error).__name__
            raise
        finally:
            store.set(key, json.dumps(tells))
        return tells["found"]
    while not store.check([key]):  # to wait in the store would be deaf to signals
        time.sleep(0.05)
    told: dict[str, str] = json.loads(store.get(key))
    if "error" in told:
        raise UserError(told["error"])
    return told["found"]


def leave_ranks() -> None:
    """Destroy the process group, at a moment when nothing in use holds a DistributedDataParallel any more.

    Whoever lets go of the group last waits for its threads. Python does so without its lock; DistributedDataParallel
    keeps the lock, for which a thread may be waiting to let go of a tensor (pytorch issue 56297): this process would
    never end. Modules hold themselves in cycles, which only the collector frees.
    """
    import torch.distributed as dist

    gc.collect()
    dist.destroy_process_group()


def run_rank(*command: str) -> None:
    """What a process that was started as a function does: `python -m project COMMAND`."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # a forked process has its parent's number
    sys.argv[1:] = command
    try:
        runpy.run_module("project", run_name="__main__")
    except SystemExit as ended:
        if Listener.has_heard:  # too late to change anything. The launcher waits for the end; torch's wrapper, for it
            sys.stdout.flush()
            os._exit(int(ended.code or 0))
        raise


def record(error: Exception) -> bool:
    """Tell the launcher, torchrun as well, what ended this rank; whether that is enough and nothing need be printed."""
    if not is_rank():
        return False
    if isinstance(error, UserError):
        error = UserError(str(error))  # of all its kinds one name in the file
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    get_error_handler().record_exception(error)
    return os.environ["TORCHELASTIC_RUN_ID"].startswith(RUN_ID)


def recorded(folder: Path) -> dict[int, ProcessFailure]:
    """The failures that ranks have recorded below the launcher's folder, with the exit code that follows from each."""
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

    found = {}
    for file in folder.rglob("error.json"):
        message = json.loads(file.read_text(encoding="utf-8"))["message"]["message"]
        exitcode = 2 if message.startswith("UserError: ") else 1
        rank = int(file.parent.name)
        found[rank] = ProcessFailure(local_rank=rank, pid=-1, exitcode=exitcode, error_file=str(file))
    return found


def report_first(error: ChildFailedError) -> int:
    """Print the error of the rank that failed first, as the last thing that is seen; returns its exit code."""
    rank, failure = min(error.failures.items(), key=lambda found: _when(found[1]))
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        print(f"error: rank {rank} was ended by {name} from outside{hint}; all ranks were stopped", file=sys.stderr)
        return 128 - failure.exitcode
    file = Path(failure.error_file)
    if not file.is_file():  # it ended itself, and said why if it had anything to say
        return failure.exitcode
    said = json.loads(file.read_text(encoding="utf-8"))["message"]
    message = said["message"].strip()
    if failure.exitcode == 2:  # meant for users; without the name of its class
        print(f"error: {message.partition(': ')[2]}", file=sys.stderr)
        return 2
    hint = ""
    if "timed out" in message.lower():
        hint = "; another rank hangs, or takes longer than distributed.timeout_seconds"
    print(said["extraInfo"]["py_callstack"].rstrip(), file=sys.stderr)
    print(f"error: rank {rank} failed first: {message}{hint}", file=sys.stderr)
    return failure.exitcode


def _when(failure: ProcessFailure) -> tuple[int, int]:
    """Orders failures: who was killed from outside, then by the time of the error, then whom the launcher stopped.

    Time is in nanoseconds: the launcher's own stamps are in whole seconds, and the others fail soon after the first.
    """
    if failure.exitcode < 0:
        return (2 if -failure.exitcode == signal.SIGTERM else 0), 0
    file = Path(failure.error_file)
    return 1, file.stat().st_mtime_ns if file.is_file() else 2**63
