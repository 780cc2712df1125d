"""Every package of the environment is pinned, and what is installed is what is pinned."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import renew_constraints
from renew_constraints import CONSTRAINTS, main, pins, read_pins

UNPINNED = {"pip", "twinloop"}  # the one that installs, and this project


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def differences(installed: Iterable[Distribution], pinned: Mapping[str, str]) -> list[str]:
    """What is installed otherwise than pinned; what an installed package requires by exact version is pinned, too."""
    versions, exact = dict[str, str](), dict[str, str]()
    for distribution in installed:
        versions[normal(distribution.metadata["Name"])] = distribution.version.partition("+")[0]
        for requirement in map(Requirement, distribution.requires or []):
            if str(requirement.specifier).startswith("=="):
                exact[normal(requirement.name)] = str(requirement.specifier).removeprefix("==")
    wanted = {normal(name): version for name, version in pinned.items()}
    return [
        f"{name}: {versions.get(name, 'not')} installed, {wanted.get(name, 'not')} pinned"
        for name in sorted((versions.keys() | wanted.keys()) - UNPINNED)
        if versions.get(name) != wanted.get(name, exact.get(name))
    ]


@pytest.fixture(autouse=True)
def _without_vendored(monkeypatch: pytest.MonkeyPatch) -> None:
    """setuptools, once imported, puts its own copies of packages on the module path."""
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if not folder.endswith("_vendor")])


def test_what_is_installed_is_what_is_pinned() -> None:
    assert differences(distributions(), read_pins(CONSTRAINTS)) == []


def test_a_package_that_is_not_pinned_or_not_installed_is_noticed() -> None:
    pinned = read_pins(CONSTRAINTS)
    version, yaml = pinned.pop("rich"), pinned["PyYAML"]
    pinned["PyYAML"] = "1.0"
    pinned["gone"] = "2.0"
    assert differences(distributions(), pinned) == [
        "gone: not installed, 2.0 pinned",
        f"pyyaml: {yaml} installed, 1.0 pinned",
        f"rich: {version} installed, not pinned",
    ]


def test_every_pin_is_one_exact_version() -> None:
    for line in CONSTRAINTS.read_text().splitlines():
        assert re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line), line


def test_a_report_of_pip_becomes_pins() -> None:
    def item(name: str, version: str, **download: object) -> dict[str, object]:
        return {"metadata": {"name": name, "version": version}, "download_info": {"url": "…", **download}}

    report = {
        "install": [
            item("torch", "2.13.0+cpu"),
            item("Abc", "1.0"),
            item("twinloop", "0.1.0", dir_info={}),
            item("b", "2"),
        ]
    }
    assert list(pins(report).items()) == [("Abc", "1.0"), ("b", "2"), ("torch", "2.13.0")]


def test_the_script_writes_the_file_and_says_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "constraints.txt"
    path.write_text("# old\na==1\ngone==1\ntorch==2.13.0\n")
    monkeypatch.setattr(renew_constraints, "CONSTRAINTS", path)
    monkeypatch.setattr(renew_constraints, "resolve", lambda torch: {"a": "2", "new": "1", "torch": torch})
    assert main([]) == 0
    assert read_pins(path) == {"a": "2", "new": "1", "torch": "2.13.0"}
    assert capsys.readouterr().out == "a: 1 → 2\ngone: 1 → absent\nnew: absent → 1\n"

    def fails(torch: str) -> dict[str, str]:
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(renew_constraints, "resolve", fails)
    assert main(["--torch=9"]) == 2
    assert read_pins(path)["a"] == "2"
