# SPDX-License-Identifier: BSD-2-Clause
"""KERNEL=: find the kernel of a virtual machine, or fetch it from the distribution.

KERNEL= is a version (6.1, 6.1.0-50-amd64), a kernel image, or a built kernel tree; the default is the kernel
that the distribution would install today. A version that is not installed, or not readable, is downloaded as
packages (archive.py) and unpacked into the user's cache, without root. What this machine boots stays as is.
Fetching works on Debian and its derivatives. On other distributions KERNEL= names an image or a tree.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.machines import archive
from workloads.system import private
from workloads.system.errors import MachineError, OptionError, nearest
from workloads.system.units import show_size

# Where distributions put modules below the root (usr/lib: those without a /lib of its own).
_MODULES = ("lib/modules", "usr/lib/modules")


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot."""

    name: str  # shown to the user: the release, or the path if the release is not known
    image: Path | None  # bzImage, or the built tree; None: not fetched yet
    modules: Path | None  # …/lib/modules/RELEASE; None: not known before the boot
    config: Path | None

    @property
    def is_tree(self) -> bool:
        """Whether the kernel is given as a built tree."""
        return self.image is not None and self.image.is_dir()


def cache_directory() -> Path:
    """Return the user's cache directory: fetched kernels, package lists, whether KVM works in this boot."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "seekmeter"


def identify(given: str | None, say: Callable[[str], None]) -> Kernel:
    """Return the kernel that KERNEL= names without fetching it; package lists may be fetched.

    given: the value of KERNEL=, None for the distribution's newest. say gets a message before a download.
    Raises OptionError, MachineError.
    """
    if given is not None and "/" in given:
        return _at_path(Path(given).absolute())
    release = _release_of(given, say)
    cached = cache_directory() / "kernels" / release
    return _installed(Path("/"), release) or _installed(cached, release) or Kernel(release, None, None, None)


def find(given: str | None, say: Callable[[str], None]) -> Kernel:
    """Return the kernel that KERNEL= names, and fetch it if it is missing. Raises OptionError, MachineError.

    given: the value of KERNEL=, None for the distribution's newest. say gets a message before a download.
    """
    kernel = identify(given, say)
    return kernel if kernel.image is not None else _fetch(kernel.name, say)


def _at_path(path: Path) -> Kernel:
    if path.is_dir():
        release = path / "include/config/kernel.release"
        if not (path / ".config").exists() or not release.exists():
            raise OptionError(f"KERNEL={path} is not a built kernel tree: build it, or name a kernel image")
        if os.geteuid() == 0 and not private.is_private(path):
            raise MachineError(
                f"KERNEL={path} can be written by others than root, who would run what is built in it: start "
                f"this as its owner, or name its image"
            )
        return Kernel(release.read_text().strip(), path, None, path / ".config")
    if not path.exists():
        raise OptionError(f"KERNEL={path} is not there: name a kernel image, a built tree or a version")
    if not os.access(path, os.R_OK):
        raise MachineError(f"KERNEL={path} cannot be read by this user: copy it, or name a version to fetch")
    release_name = path.name.partition("-")[2]
    for parent in path.parents:
        kernel = _installed(parent, release_name) if release_name else None
        if kernel is not None and kernel.image and kernel.image.resolve() == path.resolve():
            return kernel
    config = path.with_name(f"config-{release_name}")
    return Kernel(str(path), path, None, config if config.exists() else None)


def _installed(root: Path, release: str) -> Kernel | None:
    """Return the kernel of this release below root, if this user can read all of it."""
    for directory in _MODULES:
        modules = root / directory / release
        if not os.access(modules / "modules.dep", os.R_OK):
            continue
        # Debian has image and configuration in /boot until Linux 6.x, in the modules' directory from 7.x on.
        images = (root / "boot" / f"vmlinuz-{release}", modules / "vmlinuz")
        configs = (root / "boot" / f"config-{release}", modules / "config")
        image = next((path for path in images if os.access(path, os.R_OK)), None)
        config = next((path for path in configs if os.access(path, os.R_OK)), None)
        if image is not None:
            return Kernel(release, image, modules, config)
    return None


def _lists() -> archive.Lists:
    return archive.Lists(cache_directory() / "archive")


def _release_of(given: str | None, say: Callable[[str], None]) -> str:
    """Return the release for a version: the version itself, or the newest release that begins with it.

    If neither this machine nor its package lists have one, the lists of all suites of the archive are used.
    """
    installed = [path.name.removeprefix("vmlinuz-") for path in Path("/boot").glob("vmlinuz-*")]
    cached = [path.name for path in cache_directory().glob("kernels/*") if not path.name.startswith(".")]
    if given is not None and (given in installed or given in cached):
        return given
    if given is None:
        return archive.newest_of_machine() or _newest_of_archive(say) or os.uname().release
    known = {*installed, *cached, *archive.kernels_of_machine()}
    fits = _fitting(given, known)
    if not fits:
        try:
            known |= _offers_of_archive(given, say).kernels.keys()
        except MachineError as error:
            raise MachineError(
                f"KERNEL={given} is not here, and {error.message}: name a kernel image or a built tree "
                f"(KERNEL=/boot/vmlinuz-…)"
            ) from None
        fits = _fitting(given, known)
    if not fits:
        series = {".".join(name.split(".")[:2]) for name in known}
        hint = nearest(given, sorted(known if given.count(".") > 1 else series, key=_by_number))
        raise OptionError(f"KERNEL={given} is no kernel of the distribution's archive: {hint}")
    return max(fits, key=_by_number)


def _newest_of_archive(say: Callable[[str], None]) -> str | None:
    try:
        return _offers_of_archive(None, say).newest
    except MachineError:
        return None


def _fitting(version: str, releases: Iterable[str]) -> list[str]:
    """Return the releases that begin with a version."""
    return [name for name in releases if name == version or re.match(re.escape(version) + r"[.-]", name)]


def _offers_of_archive(given: str | None, say: Callable[[str], None]) -> archive.Offers:
    """Return the kernels in every suite of the distribution's archive. Raises MachineError."""

    def has_it(offers: archive.Offers) -> bool:
        return bool(_fitting(given, offers.kernels)) if given is not None else offers.newest is not None

    lists = _lists()
    try:
        with _locked(lists.directory):
            return lists.offers(has_it, say)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MachineError(f"{lists.directory} cannot keep the archive's package lists ({reason})") from None


def _by_number(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", release)]


def _fetch(release: str, say: Callable[[str], None]) -> Kernel:
    """Download the packages of a release and unpack them into the cache. Raises MachineError."""
    kernels = cache_directory() / "kernels"
    directory = kernels / release
    try:
        with _locked(kernels):
            if not directory.exists():
                packages, lists = _packages_of(release, say)
                archive_bytes = sum(package.archive_bytes for package in packages)
                unpacked_bytes = sum(package.unpacked_bytes for package in packages)
                say(
                    f"fetching Linux {release} for virtual machines into {directory} "
                    f"({show_size(archive_bytes)}, {show_size(unpacked_bytes)} unpacked)"
                )
                with tempfile.TemporaryDirectory(prefix=".new-", dir=kernels) as new:
                    archive.download(packages, Path(new), lists)
                    _unpack(release, Path(new))
                    (Path(new) / "tree").rename(directory)
    except OSError as error:
        raise MachineError(
            f"Linux {release} cannot be kept in {kernels} ({(error.strerror or str(error)).lower()}): "
            f"make room there, or set XDG_CACHE_HOME to another directory"
        ) from None
    kernel = _installed(directory, release)
    if kernel is None:
        raise MachineError(f"{directory} is not whole: remove it, and it is fetched again")
    return kernel


def _packages_of(release: str, say: Callable[[str], None]) -> tuple[archive.Packages, archive.Lists | None]:
    """Return a release's packages, and the lists that have them: None for this machine's own."""
    offered = archive.kernels_of_machine()
    if release in offered:
        return offered[release], None
    offers = _offers_of_archive(release, say)
    if release not in offers.kernels:
        raise MachineError(
            f"Linux {release} is in no suite of the distribution's archive: name another KERNEL="
        )
    return offers.kernels[release], _lists()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make a directory of the cache, and hold its lock."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unpack(release: str, new: Path) -> None:
    tree = new / "tree"
    for package in sorted(new.glob("*.deb")):
        _must(["dpkg-deb", "-x", str(package), str(tree)], new, f"dpkg-deb could not unpack {package.name}")
    tree.chmod(0o755)
    if not (tree / "lib").exists():
        (tree / "lib").symlink_to("usr/lib")  # packages of a Debian with merged /usr
    _must(["depmod", "-b", str(tree), release], new, "depmod could not list the modules")


def _must(argv: list[str], cwd: Path, failure: str) -> None:
    """Run a command. Raises MachineError, with failure as the message, if it is missing or fails."""
    program = shutil.which(argv[0], path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if program is None:
        raise MachineError(f"{failure}: {argv[0]} is missing; name a kernel image with KERNEL=")
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
        reason = lines[-1].removeprefix("E: ").rstrip(".") if lines else f"exit status {result.returncode}"
        raise MachineError(f"{failure}: {reason}; name a kernel image with KERNEL=")
