# SPDX-License-Identifier: BSD-2-Clause
"""KERNEL=: which kernel a word stands for, among those installed, fetched before, and offered by apt."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from workloads.machines import archive, kernels
from workloads.system.errors import MachineError, OptionError

needs_apt = pytest.mark.skipif(shutil.which("apt-cache") is None, reason="not a Debian: no apt-cache to ask")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and a machine whose apt knows three kernels; no archive answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    releases = ["6.1.0-9-amd64", "6.1.0-10-amd64", "6.12.3+deb12-amd64"]
    monkeypatch.setattr(archive, "kernels_of_machine", lambda: dict.fromkeys(releases, ()))
    monkeypatch.setattr(archive, "newest_of_machine", lambda: "6.1.0-10-amd64")
    monkeypatch.setattr(archive.Lists, "offers", lambda lists, wanted, say: archive.Offers({}, None))
    return tmp_path / "cache/seekmeter/kernels"


def put(root: Path, release: str, modules: str = "lib/modules") -> Path:
    """Lay out a kernel as a package does."""
    (root / "boot").mkdir(parents=True)
    (root / modules / release).mkdir(parents=True)
    image = root / "boot" / f"vmlinuz-{release}"
    image.write_bytes(b"kernel")
    (root / "boot" / f"config-{release}").write_text("CONFIG_SMP=y\n")
    (root / modules / release / "modules.dep").touch()
    return image


@pytest.mark.parametrize(
    ("word", "release"),
    [
        (None, "6.1.0-10-amd64"),
        ("6.1", "6.1.0-10-amd64"),  # 10 is more than 9
        ("6.1.0-9-amd64", "6.1.0-9-amd64"),
        ("6", "6.12.3+deb12-amd64"),
        ("6.12", "6.12.3+deb12-amd64"),
    ],
)
def test_version_prefix_selects_the_newest_kernel(cache: Path, word: str | None, release: str) -> None:
    found = kernels.identify(word, print)
    assert (found.name, found.image) == (release, None)
    image = put(cache / release, release)
    found = kernels.identify(word, print)
    assert (found.image, found.config) == (image, image.with_name(f"config-{release}"))
    assert found.modules == cache / release / "lib/modules" / release


def test_incomplete_cached_kernel_is_refused(cache: Path) -> None:
    image = put(cache / "6.1.0-9-amd64", "6.1.0-9-amd64")
    image.unlink()
    with pytest.raises(MachineError, match="not whole: remove it"):
        kernels.find("6.1.0-9-amd64", print)


def test_unknown_version_names_known_kernels(cache: Path) -> None:
    with pytest.raises(OptionError, match=r"6\.1\.0-10-amd64"):
        kernels.identify("6.1.0-11-amd64", print)


def test_version_without_apt_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("PATH", "/nowhere")
    archive.kernels_of_machine.cache_clear()
    with pytest.raises(MachineError, match=r"KERNEL=5\.10 is not here, and .*: name a kernel image"):
        kernels.identify("5.10", print)
    archive.kernels_of_machine.cache_clear()


def test_cached_image_in_the_modules_folder_is_found(cache: Path) -> None:
    """As Debian has it from Linux 7.x on."""
    modules = cache / "7.2.1-amd64/usr/lib/modules/7.2.1-amd64"
    modules.mkdir(parents=True)
    for name in ("vmlinuz", "config", "modules.dep"):
        (modules / name).touch()
    wanted = kernels.Kernel("7.2.1-amd64", modules / "vmlinuz", modules, modules / "config")
    assert kernels.identify("7.2", print) == wanted


@pytest.mark.parametrize("modules", ["lib/modules", "usr/lib/modules"])
def test_image_path_finds_its_modules(tmp_path: Path, modules: str) -> None:
    image = put(tmp_path / "root", "6.6.1", modules)
    found = kernels.identify(str(image), print)
    assert (found.name, found.image, found.modules) == ("6.6.1", image, tmp_path / "root" / modules / "6.6.1")


def test_image_without_modules_is_accepted(tmp_path: Path) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(b"kernel")
    assert kernels.identify(str(image), print) == kernels.Kernel(str(image), image, None, None)


def test_built_tree_gives_its_release_and_config(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="not a built kernel tree: build it"):
        kernels.identify(f"{tmp_path}/", print)
    (tmp_path / ".config").touch()
    (tmp_path / "include/config").mkdir(parents=True)
    (tmp_path / "include/config/kernel.release").write_text("6.9.0-rc1\n")
    found = kernels.identify(f"{tmp_path}/", print)
    assert (found.name, found.is_tree, found.config) == ("6.9.0-rc1", True, tmp_path / ".config")


@pytest.mark.root
def test_root_refuses_a_tree_that_others_can_write(tmp_path: Path) -> None:
    (tmp_path / "include/config").mkdir(parents=True)
    (tmp_path / ".config").touch()
    (tmp_path / "include/config/kernel.release").write_text("6.9.0-rc1\n")
    os.chown(tmp_path, 61001, 61001)
    try:
        with pytest.raises(MachineError, match="can be written by others than root"):
            kernels.identify(f"{tmp_path}/", print)
    finally:
        os.chown(tmp_path, 0, 0)


def test_missing_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not there: name a kernel image"):
        kernels.identify(str(tmp_path / "bzImage"), print)


@needs_apt
def test_default_kernel_is_the_one_apt_would_install() -> None:
    """Against apt's own account of what installing the kernel's package would bring."""
    machine = archive.architecture()
    wanted = subprocess.run(
        ["apt-get", "install", "--simulate", "--no-install-recommends", f"linux-image-{machine}"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    brought = re.findall(rf"^Inst linux-image-(\d\S+-{machine}) ", wanted, re.MULTILINE)
    if not brought:
        pytest.skip(
            "the distribution's kernel is installed, or apt's lists are empty: apt-get update fills them"
        )
    assert kernels.identify(None, print).name == brought[0]
