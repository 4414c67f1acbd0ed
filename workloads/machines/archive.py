# SPDX-License-Identifier: BSD-2-Clause
"""Kernels in the distribution's archive: their releases and packages, by apt; and their download.

Two sets of package lists are read: this machine's own, then lists of every suite of the same archive, kept in
the user's cache. apt fetches those from the servers in this machine's sources. It checks them with the
archive keyring that the distribution installed. This machine's apt state stays as it is, and no root is
needed.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from workloads.system.errors import MachineError

# Suites of Debian's archive, by names that outlast its releases. A missing suite is skipped.
_SUITES = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_BACKPORTS = tuple(f"{suite}-backports" for suite in _SUITES[:3])
_SECURITY = tuple(f"{suite}-security" for suite in _SUITES[:4])
_KEYRINGS = Path("/usr/share/keyrings")
_OS_RELEASE = Path("/etc/os-release")
_DAY_SECONDS = 24 * 3600
_HOUR_SECONDS = 3600
_UPDATE_SECONDS = 900
# Keep the lists as apt has parsed them, 100 MB: each query would parse them again.
_KEEP_PARSED = ("-o", "Dir::Cache::pkgcache=pkgcache.bin")
_IMAGE = re.compile(r"linux-image-(\d+\.\d+[\w.+~-]*)")
# Variants of the plain kernel: not signed, for clouds (few drivers), real time, debugging symbols.
_OTHER_FLAVOURS = re.compile(r"-(unsigned|cloud|rt|dbg|dbgsym|16k|bpo)\b")


@dataclass(frozen=True)
class Package:
    """One version of one package."""

    name: str
    version: str
    archive_bytes: int  # of the .deb
    unpacked_bytes: int


# A kernel's packages, which together bring its image, its modules and its configuration.
Packages = tuple[Package, ...]


@dataclass(frozen=True)
class Offers:
    """The kernels in the lists of every suite."""

    kernels: Mapping[str, Packages]  # by release
    newest: str | None  # the release that this distribution would install today


def architecture() -> str:
    """Return the distribution's name of this machine's architecture, the end of its kernels' releases."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


@cache
def kernels_of_machine() -> Mapping[str, Packages]:
    """Return the kernels in this machine's own package lists, by release."""
    return _kernels(_ask("apt-cache", "show", _pattern()))


def newest_of_machine() -> str | None:
    """Return the release that the distribution would install today, from this machine's package lists."""
    return _release_of_metapackage(_ask("apt-cache", "show", f"linux-image-{architecture()}"))


def download(packages: Packages, into: Path, lists: "Lists | None") -> None:
    """Fetch the packages' files into a directory. Raises MachineError.

    lists: the package lists that have the packages; None: this machine's.
    """
    names = [f"{package.name}={package.version}" for package in packages]
    # apt downloads as its own user if that user may write there; if not, its warning is no failure.
    command = ["apt-get", *(lists.options() if lists else ()), "download", "-qq", *names]
    try:
        done = subprocess.run(
            command, cwd=into, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        raise MachineError("apt-get is missing: name a kernel image or a built tree with KERNEL=") from None
    if done.returncode != 0:
        outdated = (
            "" if lists else "; if this machine's package lists are old, apt-get update as root renews them"
        )
        raise MachineError(
            f"apt-get could not download {names[0]}: {_last_error(done.stderr)}; "
            f"check the network, or name a kernel image with KERNEL={outdated}"
        )


class Lists:
    """Package lists of every suite of the distribution's archive, kept in a directory of the user's cache."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._index = directory / "kernels.json"

    def offers(self, wanted: Callable[[Offers], bool], say: Callable[[str], None]) -> Offers:
        """Return the kernels in the lists: kept ones if fresh, else fetched again.

        Kept lists are fresh for a day if wanted(offers) is true, else for an hour. say gets a message before
        a download. Raises OSError, and MachineError if no lists are kept and none can be fetched.
        """
        kept, age_seconds = self._kept()
        limit = _DAY_SECONDS if kept and wanted(kept) else _HOUR_SECONDS
        if kept is not None and age_seconds < limit:
            return kept
        say(
            f"fetching the package lists of every suite of the distribution's archive: "
            f"up to 50 MB, 100 MB in {self.directory}"
        )
        try:
            self._update()
        except MachineError as error:
            if kept is None:
                raise
            say(f"{error.message}: going on with those of {time.ctime(time.time() - age_seconds)}")
            return kept
        try:
            offers = Offers(_kernels(self._ask("show", _pattern())), self._newest())
        finally:
            (self.directory / "cache/pkgcache.bin").unlink(missing_ok=True)
        kernels = {
            release: [asdict(package) for package in packages] for release, packages in offers.kernels.items()
        }
        new = self._index.with_suffix(".new")
        new.write_text(json.dumps({"newest": offers.newest, "kernels": kernels}, indent=1))
        new.rename(self._index)
        return offers

    def options(self) -> list[str]:
        """Return the options that make an apt program use these lists alone."""
        return ["-c", str(self.directory / "apt.conf")]

    def _kept(self) -> tuple[Offers | None, float]:
        """Return the kernels of the last download, and its age in seconds; None if there was none."""
        try:
            age_seconds = time.time() - self._index.stat().st_mtime
            index = json.loads(self._index.read_text())
            kernels = {
                release: tuple(Package(**package) for package in packages)
                for release, packages in index["kernels"].items()
            }
            return Offers(kernels, index["newest"]), age_seconds
        except (OSError, ValueError, LookupError, TypeError):
            return None, 0.0

    def _update(self) -> None:
        """Fetch the lists. Raises MachineError."""
        for part in ("lists/partial", "cache/archives/partial", "none"):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        (self.directory / "apt.conf").write_text(_configuration(self.directory))
        (self.directory / "sources.sources").write_text(_sources())
        update = ["apt-get", *self.options(), *_KEEP_PARSED, "update", "-q"]
        try:
            done = subprocess.run(
                update,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
                timeout=_UPDATE_SECONDS,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        except subprocess.TimeoutExpired:
            raise MachineError("the distribution's archive does not answer") from None
        # Most archives lack one of the suites, which apt calls an error. If no server answers, apt keeps the
        # lists that it has.
        answered = re.search(r"^(Get|Hit):", done.stdout, re.MULTILINE)
        if not answered or not list((self.directory / "lists").glob("*_Packages*")):
            raise MachineError(f"the distribution's archive cannot be read ({_last_error(done.stderr)})")

    def _ask(self, *arguments: str) -> str:
        return _ask("apt-cache", *self.options(), *_KEEP_PARSED, *arguments)

    def _newest(self) -> str | None:
        """Return the release that linux-image-ARCHITECTURE depends on in this distribution's own suites."""
        codename = _os_release().get("VERSION_CODENAME", "")
        ours = (codename, f"{codename}-security", f"{codename}-updates")
        targets = _ask("apt-get", *self.options(), "indextargets", "--format", "$(RELEASE) $(CODENAME)")
        suites = {line.split()[0] for line in targets.splitlines() if line.split()[-1] in ours}
        name = f"linux-image-{architecture()}"
        # One line a version, the newest first: PACKAGE | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages
        for line in self._ask("madison", name).splitlines():
            _, version, origin = (column.strip() for column in line.split("|"))
            if origin.split()[1].partition("/")[0] in suites:
                return _release_of_metapackage(self._ask("show", f"{name}={version}"))
        return None


def _pattern() -> str:
    """Return a regular expression for the names of a kernel's packages."""
    return f"^linux-[a-z]+-[0-9].*-{architecture()}$"


def _kernels(stanzas: str) -> dict[str, Packages]:
    """Return each release's packages: its image, and packages of the same release that it depends on."""
    by_name: dict[str, dict[str, str]] = {}
    for stanza in _fields_of(stanzas):
        by_name.setdefault(stanza.get("Package", ""), stanza)  # the newest version comes first
    kernels = {}
    for name in by_name:
        image = _IMAGE.fullmatch(name)
        # A release has three numbers; linux-image-6.12-amd64 is a metapackage for the newest release of 6.12.
        if image is None or image[1].count(".") < 2 or _OTHER_FLAVOURS.search(image[1]):
            continue
        kernels[image[1]] = tuple(
            _package(by_name[package]) for package in _with_depended(name, image[1], by_name)
        )
    return kernels


def _with_depended(name: str, release: str, by_name: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the package and its dependencies of the same release: linux-binary-RELEASE, …"""
    names = [name]
    for package in names:  # grows in the loop
        for depended in re.findall(r"[a-z][\w.+~-]+", by_name[package].get("Depends", "")):
            if depended.endswith(f"-{release}") and depended in by_name and depended not in names:
                names.append(depended)
    return names


def _package(stanza: Mapping[str, str]) -> Package:
    return Package(
        stanza["Package"],
        stanza["Version"],
        int(stanza.get("Size", 0)),
        int(stanza.get("Installed-Size", 0)) << 10,
    )


def _release_of_metapackage(stanzas: str) -> str | None:
    """Return the release of the kernel image that the first package depends on."""
    for stanza in _fields_of(stanzas):
        image = _IMAGE.search(stanza.get("Depends", ""))
        return image[1] if image else None
    return None


def _fields_of(stanzas: str) -> Iterator[dict[str, str]]:
    for stanza in re.split(r"\n\n+", stanzas.strip()):
        lines = (line.partition(": ") for line in stanza.splitlines() if not line.startswith(" "))
        yield {name: text for name, _, text in lines}


def _configuration(directory: Path) -> str:
    """Return apt settings for these lists, on top of the machine's own configuration with its proxies."""
    settings = {
        "Dir::State": directory,
        "Dir::State::lists": directory / "lists",
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache",
        "Dir::Etc::sourcelist": directory / "sources.sources",
        "Dir::Etc::sourceparts": directory / "none",
        "Dir::Etc::preferences": directory / "none/preferences",
        "Dir::Etc::preferencesparts": directory / "none",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Acquire::GzipIndexes": "true",
    }
    # The machine's hooks would act on its own lists.
    hooks = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
    lines = [f'{name} "{value}";' for name, value in settings.items()] + [f"#clear {name};" for name in hooks]
    return "\n".join(lines) + "\n"


def _sources() -> str:
    """Return sources of every suite, at the servers of this machine's own sources. Raises MachineError."""
    here = _os_release()
    distribution, codename = here.get("ID", ""), here.get("VERSION_CODENAME", "")
    keyring = next(iter(sorted(_KEYRINGS.glob(f"{distribution}-archive-keyring.*"))), None)
    if keyring is None:
        raise MachineError(
            f"{_KEYRINGS} has no {distribution}-archive-keyring, which signatures are checked with"
        )
    suites: dict[str, list[str]] = {}  # by server
    for server, suite in _machine_suites():
        base, _, kind = suite.replace("/updates", "-security").partition("-")
        if base not in (codename, *_SUITES, "sid"):
            continue  # another vendor's; one that slips through fails the keyring's check
        names = suites.setdefault(server, [])
        if distribution != "debian":  # its suites are named after releases only
            more: tuple[str, ...] = (suite,)
        elif kind == "security":
            more = _SECURITY
        else:
            more = _SUITES + _BACKPORTS
        names += [name for name in more if name not in names]
    if not suites:
        raise MachineError(f"apt's sources name no server of {distribution} {codename}")
    return "\n".join(
        f"Types: deb\nURIs: {server}\nSuites: {' '.join(names)}\nComponents: main\n"
        f"Architectures: {architecture()}\nTargets: Packages\nSigned-By: {keyring}\n"
        for server, names in suites.items()
    )


def _machine_suites() -> list[tuple[str, str]]:
    """Return the servers and suites of this machine's own sources, in either of their two formats."""
    # One line per file of an update: 'URI' NAME SIZE HASH.
    uris = _ask("apt-get", "update", "--print-uris")
    return re.findall(r"^'(.*?)/dists/(.*)/InRelease'", uris, re.MULTILINE)


def _os_release() -> dict[str, str]:
    try:
        lines = _OS_RELEASE.read_text().splitlines()
    except OSError:
        return {}
    return {name: text.strip('"') for name, _, text in (line.partition("=") for line in lines)}


def _ask(*command: str) -> str:
    """Return the output of an apt program; "" if it is missing or finds nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout


def _last_error(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("E: ")]
    return lines[-1].removeprefix("E: ").rstrip(".") if lines else "apt-get prints no reason"
