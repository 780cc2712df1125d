"""Files that bear a checkpoint's name and are something else: each would run code, fill the memory or never end.

Every kind is a function (path, good, canary): it makes the file at `path`, from the content `good` of a real checkpoint
where it needs one. Whatever runs code makes the file `canary`; `unsafe_load` shows that it really would.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.package.package_exporter import PackageExporter

Make = Callable[[Path, dict[str, Any], Path], None]
RUNS_CODE: dict[str, Make] = {}
"""Kinds that run code when a careless program loads them."""
OTHERS: dict[str, Make] = {}


class Calls:
    """Pickles as a call of `function`, which the one who unpickles makes."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


class BuiltThenCalls:
    """Pickles as a harmless object whose state calls."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def touch(canary: Path) -> str:
    return f"touch {canary}"


def python(canary: Path) -> str:
    return f"__import__('pathlib').Path({str(canary)!r}).touch()"


def runs_code(make: Callable[[dict[str, Any], Path], Any]) -> None:
    """Register a payload: what it returns stands in a real checkpoint beside what belongs there, under `extra`."""

    def written(path: Path, good: dict[str, Any], canary: Path) -> None:
        torch.save({"extra": make(good, canary), **good}, path)

    RUNS_CODE[make.__name__] = written


def raw_pickle(make: Callable[[Path], bytes]) -> None:
    """Register a hand-written pickle, as the data.pkl of a zip archive such as torch.save writes."""

    def written(path: Path, good: dict[str, Any], canary: Path) -> None:
        torch.save(good, path)
        replace_members(path, {"data.pkl": make(canary)})

    RUNS_CODE[make.__name__] = written


def other(make: Make) -> Make:
    OTHERS[make.__name__] = make
    return make


def replace_members(path: Path, changed: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> None:
    """Write the archive anew with some members changed or added; names are without the leading folder."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    folder = next(iter(members)).partition("/")[0]
    members |= {f"{folder}/{name}": content for name, content in changed.items()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


# --- calls, by each route that a pickle has


@runs_code
def os_system(good: dict[str, Any], canary: Path) -> Any:
    return Calls(os.system, touch(canary))


@runs_code
def builtins_eval(good: dict[str, Any], canary: Path) -> Any:
    return Calls(eval, python(canary))


@runs_code
def builtins_exec(good: dict[str, Any], canary: Path) -> Any:
    return Calls(exec, python(canary))


@runs_code
def subprocess_popen(good: dict[str, Any], canary: Path) -> Any:
    import subprocess

    return Calls(subprocess.check_call, ["touch", str(canary)])


@runs_code
def run_a_module(good: dict[str, Any], canary: Path) -> Any:
    import runpy

    script = canary.with_suffix(".py")
    script.write_text(python(canary))
    return Calls(runpy.run_path, str(script))


@runs_code
def getattr_chain(good: dict[str, Any], canary: Path) -> Any:
    import importlib

    return Calls(CallOf(getattr, Calls(importlib.import_module, "os"), "system"), touch(canary))


@runs_code
def operator_methodcaller(good: dict[str, Any], canary: Path) -> Any:
    import operator

    return Calls(operator.methodcaller("touch"), canary)


@runs_code
def functools_partial(good: dict[str, Any], canary: Path) -> Any:
    import functools

    return Calls(functools.partial(os.system, touch(canary)))


@runs_code
def map_into_list(good: dict[str, Any], canary: Path) -> Any:
    return Calls(list, Calls(map, os.system, [touch(canary)]))


@runs_code
def pickle_in_a_pickle(good: dict[str, Any], canary: Path) -> Any:
    return Calls(pickle.loads, pickle.dumps(Calls(os.system, touch(canary))))


@runs_code
def torch_load_in_a_pickle(good: dict[str, Any], canary: Path) -> Any:
    inner = io.BytesIO()
    torch.save(Calls(os.system, touch(canary)), inner)
    return Calls(torch.storage._load_from_bytes, inner.getvalue())


@runs_code
def tensor_that_calls(good: dict[str, Any], canary: Path) -> Any:
    """A tensor's own way of being rebuilt, with another function in it."""
    return Calls(torch._tensor._rebuild_from_type_v2, os.system, torch.Tensor, (touch(canary),), {})


@runs_code
def whole_network(good: dict[str, Any], canary: Path) -> Any:
    """A pickled module, whose class is imported and whose state is set by code."""
    network = torch.nn.Linear(1, 1)
    network.hook = Calls(os.system, touch(canary))  # type: ignore[assignment]
    return network


@runs_code
def state_of_an_object(good: dict[str, Any], canary: Path) -> Any:
    return BuiltThenCalls(Calls(os.system, touch(canary)))


@runs_code
def among_the_weights(good: dict[str, Any], canary: Path) -> Any:
    good["state_dict"] = {**good["state_dict"], "bias": Calls(os.system, touch(canary))}
    return None


@runs_code
def key_of_a_dictionary(good: dict[str, Any], canary: Path) -> Any:
    return {Calls(os.system, touch(canary)): 1}


@raw_pickle
def global_opcode(canary: Path) -> bytes:
    return b"cposix\nsystem\n(X" + length(touch(canary)) + touch(canary).encode() + b"tR."


@raw_pickle
def inst_opcode(canary: Path) -> bytes:
    return b"(S" + repr(touch(canary)).encode() + b"\nios\nsystem\n."


@raw_pickle
def obj_opcode(canary: Path) -> bytes:
    return b"(cos\nsystem\nS" + repr(touch(canary)).encode() + b"\no."


@raw_pickle
def stack_global_opcode(canary: Path) -> bytes:
    return b"\x80\x04\x8c\x02os\x8c\x06system\x93(X" + length(touch(canary)) + touch(canary).encode() + b"tR."


@raw_pickle
def newobj_ex_opcode(canary: Path) -> bytes:
    """`subprocess.Popen.__new__` does nothing; a call follows it."""
    call = b"cos\nsystem\n(X" + length(touch(canary)) + touch(canary).encode() + b"tR0"
    return b"\x80\x04cbuiltins\nobject\n)}\x92" + call + b"."


@raw_pickle
def call_before_an_end_that_is_missing(canary: Path) -> bytes:
    """Has run by the time that the error is seen."""
    return global_opcode_of(canary)[:-1]


def global_opcode_of(canary: Path) -> bytes:
    return b"cos\nsystem\n(X" + length(touch(canary)) + touch(canary).encode() + b"tR."


def length(text: str) -> bytes:
    return struct.pack("<I", len(text.encode()))


class CallOf(Calls):
    """A call whose result is called."""

    def __call__(self) -> None: ...


# --- other forms of a file that torch.load or its callers know


def plain_pickle(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.write_bytes(pickle.dumps({**good, "extra": Calls(os.system, touch(canary))}))


def legacy_torch_format(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save({**good, "extra": Calls(os.system, touch(canary))}, path, _use_new_zipfile_serialization=False)


RUNS_CODE |= {make.__name__: make for make in (plain_pickle, legacy_torch_format)}


@other
def legacy_tar_format(path: Path, good: dict[str, Any], canary: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            content = pickle.dumps(Calls(os.system, touch(canary)))
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@other
def torchscript_archive(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Compiled code of anybody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.zeros(1)), path)  # type: ignore[no-untyped-call]


@other
def torch_package(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Sources beside a pickle; they are imported when it is read."""
    with PackageExporter(path) as exporter:
        exporter.save_source_string("network", python(canary))
        exporter.save_pickle("model", "model.pkl", {"a": 1})


@other
def pickle_in_another_member(path: Path, good: dict[str, Any], canary: Path) -> None:
    """A zip in the zip, and no data.pkl but in there."""
    inner = path.with_suffix(".inner")
    torch.save(Calls(os.system, touch(canary)), inner)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/nested.zip", inner.read_bytes())


@other
def stock_lightning_instantiator(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Plain data throughout; Lightning's load_from_checkpoint would import and call what `_instantiator` names."""
    hparams = {"_instantiator": "os.system", "command": touch(canary)}
    torch.save({"state_dict": good["state_dict"], "hyper_parameters": hparams}, path)


@other
def instantiator_in_a_real_checkpoint(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save({**good, "hyper_parameters": {"_instantiator": "os.system", "command": touch(canary)}}, path)


@other
def network_of_another_library(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Plain data; the class of the network is what is imported and called."""
    network = {"class_path": "os.system", "init_args": {"command": touch(canary)}}
    torch.save({**good, "classifier": {**good["classifier"], "network": network}}, path)


# --- bombs


@other
def zip_bomb(path: Path, good: dict[str, Any], canary: Path) -> None:
    """64 MB of zeros in as many kilobytes."""
    torch.save(good, path)
    replace_members(path, {"data/0": bytes(64_000_000)}, zipfile.ZIP_DEFLATED)


@other
def zip_bomb_in_the_pickle(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path)
    replace_members(path, {"data.pkl": b"\x80\x02" + b"N0" * 30_000_000 + b"N."}, zipfile.ZIP_DEFLATED)


@other
def zip_bomb_of_shared_members(path: Path, good: dict[str, Any], canary: Path) -> None:
    """A table of contents that lists one member a thousand times: large without any packing."""
    torch.save({"a": torch.zeros(100_000)}, path)
    content = path.read_bytes()
    first = content.index(b"PK\x01\x02")
    end = bytearray(content[content.rindex(b"PK\x05\x06") :])
    entries = [b"PK\x01\x02" + entry for entry in content[first : -len(end)].split(b"PK\x01\x02")[1:]]
    large = next(entry for entry in entries if f"{path.stem}/data/0".encode() in entry)
    entries[-1] = entries[-1].partition(b"PK\x06\x06")[0]  # without the 64-bit forms of the end
    entries += [large.replace(b"/data/0", b"/%06d" % number) for number in range(1000)]
    table = b"".join(entries)
    end[8:20] = struct.pack("<2H2I", len(entries), len(entries), len(table), first)
    path.write_bytes(content[:first] + table + end)


@other
def tensor_beyond_its_storage(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Says that it has more numbers than the file holds, so that a careless reader shows what lies behind them."""
    torch.save({"a": torch.arange(4.0)}, path)
    with zipfile.ZipFile(path) as archive:
        data = archive.read(f"{path.stem}/data.pkl")
    replace_members(path, {"data.pkl": data.replace(b"K\x04", b"J" + struct.pack("<i", 1 << 30))})


@other
def memory_by_a_call(path: Path, good: dict[str, Any], canary: Path) -> None:
    """A bytearray of eight exabytes: a call that is allowed, with an argument that no machine can serve."""
    torch.save(good, path)
    replace_members(path, {"data.pkl": b"\x80\x02cbuiltins\nbytearray\n\x8a\x08" + b"\xff" * 7 + b"\x6f\x85R."})


# --- what is no file, or no whole one


@other
def empty(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.touch()


@other
def cut_in_half(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path)
    os.truncate(path, path.stat().st_size // 2)


@other
def cut_by_a_byte(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path)
    os.truncate(path, path.stat().st_size - 1)


@other
def flipped_bit(path: Path, good: dict[str, Any], canary: Path) -> None:
    """In a weight; torch alone would take it as it is."""
    torch.save({**good, "state_dict": {"weight": torch.full((9,), 1.5)}}, path)
    content = bytearray(path.read_bytes())
    content[content.index(torch.full((9,), 1.5).numpy().tobytes())] ^= 1
    path.write_bytes(content)
    torch.load(path, weights_only=True)


@other
def wrong_magic(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path)
    path.write_bytes(b"PQ" + path.read_bytes()[2:])


@other
def only_the_magic(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.write_bytes(b"PK\x03\x04 and no more")


@other
def table_of_contents_damaged(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 20 :] = b"\xff" * 40
    path.write_bytes(content)


@other
def pickle_of_another_kind(path: Path, good: dict[str, Any], canary: Path) -> None:
    """Opcodes in an order that leaves nothing on the stack to work on."""
    torch.save(good, path)
    replace_members(path, {"data.pkl": b"\x80\x02ssaeR."})


@other
def renamed_text(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.write_text('{"text": "a", "label": "b"}\n')


@other
def renamed_python(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.write_text(python(canary))


@other
def renamed_zip(path: Path, good: dict[str, Any], canary: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("letter.txt", "dear reader")


@other
def bare_tensor(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(torch.zeros(3), path)


@other
def missing(path: Path, good: dict[str, Any], canary: Path) -> None:
    pass


@other
def folder(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.mkdir()


@other
def pipe(path: Path, good: dict[str, Any], canary: Path) -> None:
    os.mkfifo(path)


@other
def device(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.symlink_to("/dev/zero")


@other
def symlink(path: Path, good: dict[str, Any], canary: Path) -> None:
    torch.save(good, path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))


@other
def symlink_loop(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.symlink_to(path)


@other
def symlink_to_nothing(path: Path, good: dict[str, Any], canary: Path) -> None:
    path.symlink_to(path.with_suffix(".gone"))


def unsafe_load(path: Path) -> None:
    """What a careless program does: shows that a kind of RUNS_CODE runs its code."""
    with open(path, "rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"
    try:
        torch.load(path, weights_only=False)
    except Exception:
        if is_zip:
            raise
        pickle.loads(path.read_bytes())
