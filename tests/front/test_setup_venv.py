# SPDX-License-Identifier: BSD-2-Clause
"""What set-up puts into .venv: no test tools for a user, the sizes it says, and to test only additions."""

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
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
LISTS = {"run": TREE / "requirements.txt", "test": TREE / "requirements-test.txt"}


def plain(name: str) -> str:
    """A distribution's name as lists write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    """Each package of a list with its version and hashes, without what pip-compile says of who wants it."""
    text = re.sub(r"^ *#.*\n", "", path.read_text(), flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9-]+)(==(?:.*\\\n)*.*)$", text, re.MULTILINE))


def said_mb(path: Path) -> int:
    """The size that a list says .venv has with it."""
    return int(re.findall(r"^# Installed: (\d+) MB in \.venv", path.read_text(), re.MULTILINE)[0])


def du_mb(files: set[Path]) -> float:
    """What files take on the disk."""
    return sum(file.lstat().st_blocks * 512 for file in files) / 2**20


def test_the_test_list_is_the_run_list_and_more() -> None:
    run, test = pins(LISTS["run"]), pins(LISTS["test"])
    assert len(run) > 10
    assert run.items() < test.items()


def test_a_users_list_is_what_the_product_imports_and_no_test_tool() -> None:
    imported: set[str] = set()
    for folder in ("analysis", "collectors", "workloads"):
        for path in (TREE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {name.name.partition(".")[0] for name in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
    owners = metadata.packages_distributions()
    used = {plain(name) for module in imported for name in owners.get(module, ())}
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    direct = set(project["dependencies"])
    assert used <= pins(LISTS["run"]).keys()
    assert direct <= used | {"virtme-ng"}  # whose virtme-run is started as a program
    tools = {name.partition("=")[0] for name in project["optional-dependencies"]["test"]}
    assert tools <= pins(LISTS["test"]).keys()
    assert not tools & pins(LISTS["run"]).keys()


def test_the_sizes_said_are_what_is_there() -> None:
    venv = Path(sys.prefix)
    if venv != TREE / ".venv" or venv.is_symlink():
        pytest.skip("the tests run with another tree's .venv: run make test")
    # Not what an older set-up compiled of the packages' own tests.
    old = {path for path in venv.rglob("*.pyc") if "tests" in path.parts}
    everything = {path for path in venv.rglob("*") if not path.is_dir()} - old
    assert du_mb(everything) == pytest.approx(said_mb(LISTS["test"]), rel=0.1)
    # A user's .venv is that without the files of the packages that only tests need.
    tools: set[Path] = set()
    for name in pins(LISTS["test"]).keys() - pins(LISTS["run"]).keys():
        files = {Path(str(file.locate())).resolve() for file in metadata.distribution(name).files or ()}
        tools |= files | {Path(cache_from_source(str(file))) for file in files if file.suffix == ".py"}
    assert du_mb(everything - tools) == pytest.approx(said_mb(LISTS["run"]), rel=0.1)


def make_wheel(folder: Path, name: str) -> str:
    """A package of one module; its line for a list."""
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
def test_run_then_test_then_fewer(tmp_path: Path) -> None:
    """Set-up to run, to test, again, and with a shorter list: what it installs and says each time."""
    python = Path(sys.base_prefix) / "bin/python3"
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    base, tool, other = (make_wheel(wheels, name) for name in ("seekbase", "seektool", "seekother"))
    packages = ".venv/lib/python*/site-packages"
    (tmp_path / "collectors/front").mkdir(parents=True)
    shutil.copy(TREE / "collectors/front/setup_venv.sh", tmp_path / "collectors/front")

    def lists(run: str, test: str) -> None:
        (tmp_path / "requirements.txt").write_text(f"# Installed: 21 MB in .venv\n{run}")
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
        """Our packages that are there, and each one's inode."""
        return {
            path.stem: path.stat().st_ino
            for path in tmp_path.glob(".venv/lib/python*/site-packages/seek*.py")
        }

    def compiled() -> list[str]:
        return sorted(
            path.name.partition(".")[0] for path in tmp_path.glob(f"{packages}/__pycache__/seek*.pyc")
        )

    lists(base, base + tool + other)
    assert "packages of requirements.txt into .venv (1 packages, 21 MB in all)" in setup("run")
    first = modules()
    assert [*first] == ["seekbase"] == compiled()
    assert setup("run") == ""
    assert "packages of requirements-test.txt into .venv (3 packages, 22 MB in all)" in setup("test")
    assert modules().keys() == {"seekbase", "seektool", "seekother"} == {*compiled()}
    assert modules()["seekbase"] == first["seekbase"]
    assert setup("test") == setup("run") == ""
    lists(base, base + tool)
    assert setup("run") == ""  # its list has not changed
    assert setup("test") != ""
    assert modules().keys() == {"seekbase", "seektool"} == {*compiled()}
    assert modules()["seekbase"] == first["seekbase"]
