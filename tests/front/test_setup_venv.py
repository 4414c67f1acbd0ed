# SPDX-License-Identifier: BSD-2-Clause
"""Packages that setup installs into .venv: lists for runs and for tests, their stated sizes, changes."""

import ast
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
LISTS = {
    "run": TREE / "requirements.txt",
    "cluster": TREE / "requirements-cluster.txt",
    "test": TREE / "requirements-test.txt",
}
CLUSTER = TREE / "collectors/cluster"  # what ON= alone imports


def plain(name: str) -> str:
    """Return a distribution's name as requirements files write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    """Return each package of a requirements file with version and hashes, without comments."""
    text = re.sub(r"^ *#.*\n", "", path.read_text(), flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9-]+)(==(?:.*\\\n)*.*)$", text, re.MULTILINE))


def stated_mb(path: Path) -> int:
    """Return the size of .venv in MB that a requirements file states."""
    return int(re.findall(r"^# Installed: (\d+) MB in \.venv", path.read_text(), re.MULTILINE)[0])


def du_mb(files: set[Path]) -> float:
    """Return the disk space of files in MB."""
    return sum(file.lstat().st_blocks * 512 for file in files) / 2**20


def test_requirements_for_tests_extend_those_for_clusters_and_these_those_for_runs() -> None:
    run, cluster, test = pins(LISTS["run"]), pins(LISTS["cluster"]), pins(LISTS["test"])
    assert len(run) > 10
    assert run.items() < cluster.items() < test.items()


def imported_packages(files: Iterable[Path]) -> set[str]:
    """Return the installed packages that these files import."""
    imported: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    owners = metadata.packages_distributions()
    return {plain(name) for module in imported for name in owners.get(module, ())}


def test_requirements_for_runs_are_the_imported_packages() -> None:
    files = [
        path for folder in ("analysis", "collectors", "workloads") for path in (TREE / folder).rglob("*.py")
    ]
    used = imported_packages(path for path in files if CLUSTER not in path.parents)
    of_cluster = imported_packages(CLUSTER.rglob("*.py"))
    assert "distributed" in of_cluster <= pins(LISTS["cluster"]).keys()
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    direct = set(project["dependencies"])
    assert used <= pins(LISTS["run"]).keys()
    assert direct <= used | {"virtme-ng"}  # virtme-run is started as a program
    tools = {name.partition("=")[0] for name in project["optional-dependencies"]["test"]}
    assert tools <= pins(LISTS["test"]).keys()
    assert not tools & pins(LISTS["run"]).keys()


def test_stated_venv_sizes_match_the_disk() -> None:
    venv = Path(sys.prefix)
    if venv != TREE / ".venv" or venv.is_symlink():
        pytest.skip("the tests run with another tree's .venv: run make test")
    # Without .pyc files of the packages' own tests, which an older setup compiled.
    old = {path for path in venv.rglob("*.pyc") if "tests" in path.parts}
    everything = {path for path in venv.rglob("*") if not path.is_dir()} - old
    assert du_mb(everything) == pytest.approx(stated_mb(LISTS["test"]), rel=0.1)
    # A user's .venv lacks the files of packages that only tests need.
    tools: set[Path] = set()
    for name in pins(LISTS["test"]).keys() - pins(LISTS["run"]).keys():
        files = {Path(str(file.locate())).resolve() for file in metadata.distribution(name).files or ()}
        tools |= files | {Path(cache_from_source(str(file))) for file in files if file.suffix == ".py"}
    assert du_mb(everything - tools) == pytest.approx(stated_mb(LISTS["run"]), rel=0.1)


def make_wheel(folder: Path, name: str) -> str:
    """Make a wheel of one module; return its line for a requirements file."""
    wheel = folder / f"{name}-1-py3-none-any.whl"
    info = f"{name}-1.dist-info"
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        record = ""
        for path, text in files.items():
            archive.writestr(path, text)
            sha = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
            record += f"{path},sha256={sha},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return f"{name}==1 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.mark.long
def test_setup_installs_and_removes_what_the_lists_change(tmp_path: Path) -> None:
    """Setup for runs, clusters, tests, again, and with a shorter list: packages and output of each."""
    python = Path(sys.base_prefix) / "bin/python3"
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    names = ("seekbase", "seekdask", "seektool", "seekother")
    base, dask, tool, other = (make_wheel(wheels, name) for name in names)
    packages = ".venv/lib/python*/site-packages"
    (tmp_path / "collectors/front").mkdir(parents=True)
    shutil.copy(TREE / "collectors/front/setup_venv.sh", tmp_path / "collectors/front")

    def lists(run: str, test: str) -> None:
        (tmp_path / "requirements.txt").write_text(f"# Installed: 21 MB in .venv\n{run}")
        (tmp_path / "requirements-cluster.txt").write_text(f"# Installed: 23 MB in .venv\n{run}{dask}")
        (tmp_path / "requirements-test.txt").write_text(f"# Installed: 22 MB in .venv\n{test}")

    def setup(what: str) -> str:
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        done = subprocess.run(
            [tmp_path / "collectors/front/setup_venv.sh", python, what],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    def modules() -> dict[str, int]:
        """Return the installed test packages by name, with their inodes."""
        return {
            path.stem: path.stat().st_ino
            for path in tmp_path.glob(".venv/lib/python*/site-packages/seek*.py")
        }

    def compiled() -> list[str]:
        return sorted(
            path.name.partition(".")[0] for path in tmp_path.glob(f"{packages}/__pycache__/seek*.pyc")
        )

    lists(base, base + dask + tool + other)
    assert "packages of requirements.txt into .venv (1 packages, 21 MB in all)" in setup("run")
    first = modules()
    assert [*first] == ["seekbase"] == compiled()
    assert setup("run") == ""
    assert "packages of requirements-cluster.txt into .venv (2 packages, 23 MB in all)" in setup("cluster")
    assert modules().keys() == {"seekbase", "seekdask"} == {*compiled()}
    assert setup("cluster") == setup("run") == ""
    assert "packages of requirements-test.txt into .venv (4 packages, 22 MB in all)" in setup("test")
    assert modules().keys() == {*names} == {*compiled()}
    assert modules()["seekbase"] == first["seekbase"]
    assert setup("test") == setup("cluster") == setup("run") == ""
    lists(base, base + dask + tool)
    assert setup("run") == ""  # its list has not changed
    assert setup("test") != ""
    assert modules().keys() == {"seekbase", "seekdask", "seektool"} == {*compiled()}
    assert modules()["seekbase"] == first["seekbase"]
