# SPDX-License-Identifier: BSD-2-Clause
"""KERNEL=: the kernel of the virtual machine, found, or fetched from the distribution.

A word is a version (6.1, 6.1.0-50-amd64), a kernel image, or a built kernel tree; none is the kernel that the
distribution would install today. A version that is not installed readably is downloaded as a package and
unpacked into the user's cache: no root, and nothing changes in what this machine boots. Debian and its kin
only, as other distributions' kernels come in other packages: there, KERNEL= names an image or a tree.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import MachineError, WordError
from workloads.nearest import nearest

# Where distributions put modules below the root (usr/lib: those without a /lib of its own).
_MODULES = ("lib/modules", "usr/lib/modules")
_NAME = re.compile(r"linux-image-(\d+\.\d+[\w.+~-]*)")
# Variants of the plain kernel: not signed, for clouds (few drivers), real time, debugging symbols.
_OTHER_FLAVOURS = re.compile(r"-(unsigned|cloud|rt|dbg|dbgsym|16k|bpo)\b")


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot."""

    name: str  # for the user: the release, or the path where that is not known
    image: Path | None  # bzImage, or the built tree; None: it is not fetched yet
    modules: Path | None  # …/lib/modules/RELEASE; None: not known before the boot
    config: Path | None

    @property
    def is_tree(self) -> bool:
        """Whether it is a built kernel tree."""
        return self.image is not None and self.image.is_dir()


def cache_directory() -> Path:
    """Return the user's own place for what can be made again: kernels, what was found out about this boot."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "seekmeter"


def look(word: str | None) -> Kernel:
    """Return the kernel KERNEL= names (None: the distribution's newest), fetching nothing."""
    if word is not None and "/" in word:
        return _at_path(Path(word).absolute())
    release = _release_of(word)
    cached = cache_directory() / "kernels" / release
    return _installed(Path("/"), release) or _installed(cached, release) or Kernel(release, None, None, None)


def find(word: str | None, say: Callable[[str], None]) -> Kernel:
    """Return the kernel KERNEL= names, fetched if need be. Raises WordError, MachineError.

    say is told of a download before it begins.
    """
    kernel = look(word)
    return kernel if kernel.image is not None else _fetch(kernel.name, say)


def _at_path(path: Path) -> Kernel:
    if path.is_dir():
        release = path / "include/config/kernel.release"
        if not (path / ".config").exists() or not release.exists():
            raise WordError(f"KERNEL={path} is not a built kernel tree: build it, or name a kernel image")
        return Kernel(release.read_text().strip(), path, None, path / ".config")
    if not path.exists():
        raise WordError(f"KERNEL={path} is not there: name a kernel image, a built tree or a version")
    if not os.access(path, os.R_OK):
        raise MachineError(f"KERNEL={path} cannot be read by this user: copy it, or name a version to fetch")
    release_name = path.name.partition("-")[2]
    for parent in path.parents:
        found = _installed(parent, release_name) if release_name else None
        if found is not None and found.image and found.image.resolve() == path.resolve():
            return found
    config = path.with_name(f"config-{release_name}")
    return Kernel(str(path), path, None, config if config.exists() else None)


def _installed(root: Path, release: str) -> Kernel | None:
    """Return the kernel of this release below root, if this user can read all of it."""
    image = root / "boot" / f"vmlinuz-{release}"
    for place in _MODULES:
        modules = root / place / release
        if os.access(image, os.R_OK) and os.access(modules / "modules.dep", os.R_OK):
            config = root / "boot" / f"config-{release}"
            return Kernel(release, image, modules, config if os.access(config, os.R_OK) else None)
    return None


def _release_of(word: str | None) -> str:
    """Return the release that a word stands for: itself, or the newest one that begins with it."""
    installed = [path.name.removeprefix("vmlinuz-") for path in Path("/boot").glob("vmlinuz-*")]
    cached = [path.name for path in cache_directory().glob("kernels/*") if not path.name.startswith(".")]
    if word is None:
        word = (
            _newest_of_distribution() or (_fill_lists() and _newest_of_distribution()) or os.uname().release
        )
    if word in installed or word in cached:
        return word
    offered = _offered() or (_offered() if _fill_lists() else [])
    known = {*installed, *cached, *offered}
    fits = [name for name in known if name == word or re.match(re.escape(word) + r"[.-]", name)]
    if not fits:
        if not offered:
            raise MachineError(
                f"KERNEL={word} is not installed, and apt knows no kernels: name a kernel image or a built "
                f"tree (KERNEL=/boot/vmlinuz-…), or run apt-get update as root"
            )
        raise WordError(f"KERNEL={word} is no kernel that apt knows: {nearest(word, sorted(known))}")
    return max(fits, key=_by_number)


def _by_number(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", release)]


def _apt(*words: str) -> str:
    """Return what apt-cache says; "" where there is none."""
    try:
        result = subprocess.run(
            ["apt-cache", *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return ""
    return result.stdout


def _offered() -> list[str]:
    """Return the releases that apt could fetch for this architecture."""
    architecture = _architecture()
    names = (_NAME.fullmatch(line.strip()) for line in _apt("pkgnames", "linux-image-").splitlines())
    releases = (found[1] for found in names if found and not _OTHER_FLAVOURS.search(found[1]))
    # A release has three numbers; linux-image-6.12-amd64 is a package that stands for the newest of them.
    return sorted(r for r in releases if r.endswith(f"-{architecture}") and r.count(".") >= 2)


def _fill_lists() -> bool:
    """Fill apt's lists, which a fresh container has none of; only root can. Returns whether that was done."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    update = ["apt-get", "update", "-qq"]
    return subprocess.run(update, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _newest_of_distribution() -> str | None:
    found = re.search(rf"Depends: {_NAME.pattern}", _apt("depends", f"linux-image-{_architecture()}"))
    return found[1] if found else None


def _fetch(release: str, say: Callable[[str], None]) -> Kernel:
    """Download the distribution's package of a release and unpack it into the cache. Raises MachineError."""
    kernels = cache_directory() / "kernels"
    place = kernels / release
    try:
        kernels.mkdir(parents=True, exist_ok=True)
        with _only_one(kernels):
            if not place.exists():
                say(f"fetching Linux {release} for virtual machines into {place} (70 MB, 400 MB unpacked)")
                with tempfile.TemporaryDirectory(prefix=".new-", dir=kernels) as new:
                    _unpack(release, Path(new))
                    os.chmod(new, 0o755)
                    (Path(new) / "tree").rename(place)
    except OSError as error:
        raise MachineError(
            f"Linux {release} cannot be kept in {kernels} ({(error.strerror or str(error)).lower()}): "
            f"make room there, or set XDG_CACHE_HOME to another place"
        ) from None
    kernel = _installed(place, release)
    if kernel is None:
        raise MachineError(f"{place} is not whole: remove it, and it is fetched again")
    return kernel


@contextmanager
def _only_one(directory: Path) -> Iterator[None]:
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpack(release: str, new: Path) -> None:
    package = f"linux-image-{release}"
    tree = new / "tree"
    # apt drops to its own user for a download if that user may write there; said to stderr if not, no fault.
    _must(["apt-get", "download", "-qq", package], new, f"apt-get could not download {package}")
    (archive,) = new.glob("*.deb")
    _must(["dpkg-deb", "-x", str(archive), str(tree)], new, f"dpkg-deb could not unpack {archive.name}")
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")  # a Debian that has merged them
    _must(["depmod", "-b", str(tree), release], new, "depmod could not list the modules")


def _must(argv: list[str], cwd: Path, what: str) -> None:
    program = shutil.which(argv[0], path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if program is None:
        raise MachineError(f"{what}: {argv[0]} is missing; name a kernel image with KERNEL=")
    result = subprocess.run(
        [program, *argv[1:]],
        cwd=cwd,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        why = lines[-1].removeprefix("E: ").rstrip(".") if lines else f"exit status {result.returncode}"
        raise MachineError(f"{what}: {why}; run apt-get update as root, or name a kernel image with KERNEL=")
