# SPDX-License-Identifier: BSD-2-Clause
"""The kernels that the distribution's archive offers: their releases, their packages, the download.

apt is asked twice at most: with this machine's own package lists, and with lists of every suite of the same
archive, which the user's cache keeps. apt fetches these from the servers in this machine's sources. It checks
them with the archive keyring that the distribution installed. This machine's own apt state stays as it is,
and no root is needed.
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

# Suites that Debian's archive has, by names that outlast its releases. One that is not there is passed over.
_SUITES = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_BACKPORTS = tuple(f"{suite}-backports" for suite in _SUITES[:3])
_SECURITY = tuple(f"{suite}-security" for suite in _SUITES[:4])
_KEYRINGS = Path("/usr/share/keyrings")
_OS_RELEASE = Path("/etc/os-release")
_DAY_SECONDS = 24 * 3600
_HOUR_SECONDS = 3600
_UPDATE_SECONDS = 900
# The lists as apt has parsed them, 100 MB: each question right after an update would parse them again.
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
    """What the lists of every suite offer."""

    kernels: Mapping[str, Packages]  # by release
    newest: str | None  # the release that this distribution would install today


def architecture() -> str:
    """Return what the distribution calls this machine's architecture, which ends its kernels' releases."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


@cache
def kernels_of_machine() -> Mapping[str, Packages]:
    """Return the kernels that this machine's own package lists offer, by release."""
    return _kernels(_ask("apt-cache", "show", _pattern()))


def newest_of_machine() -> str | None:
    """Return the release that this distribution would install today, by this machine's own package lists."""
    return _standing_for(_ask("apt-cache", "show", f"linux-image-{architecture()}"))


def download(packages: Packages, into: Path, lists: "Lists | None") -> None:
    """Fetch the packages' files into a directory. Raises MachineError.

    lists: those that offered the packages; None: this machine's.
    """
    names = [f"{package.name}={package.version}" for package in packages]
    # apt drops to its own user for a download if that user may write there; said to stderr if not, no fault.
    command = ["apt-get", *(lists.options() if lists else ()), "download", "-qq", *names]
    try:
        done = subprocess.run(
            command, cwd=into, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        raise MachineError("apt-get is missing: name a kernel image or a built tree with KERNEL=") from None
    if done.returncode != 0:
        old = "" if lists else "; if this machine's package lists are old, apt-get update as root renews them"
        raise MachineError(
            f"apt-get could not download {names[0]}: {_last_error(done.stderr)}; "
            f"check the network, or name a kernel image with KERNEL={old}"
        )


class Lists:
    """Package lists of every suite of the distribution's archive, kept in a directory of the user's."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._index = place / "kernels.json"

    def offers(self, wanted: Callable[[Offers], bool], say: Callable[[str], None]) -> Offers:
        """Return what they offer: as kept if that has what is wanted and is of today, else as fetched again.

        say is told before that. Raises MachineError if nothing is kept or can be fetched, and OSError.
        """
        kept, age_seconds = self._kept()
        limit = _DAY_SECONDS if kept and wanted(kept) else _HOUR_SECONDS
        if kept is not None and age_seconds < limit:
            return kept
        say(
            f"asking every suite of the distribution's archive for its kernels: "
            f"package lists of up to 50 MB, 100 MB in {self.place}"
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
            (self.place / "cache/pkgcache.bin").unlink(missing_ok=True)
        kernels = {release: [asdict(one) for one in packages] for release, packages in offers.kernels.items()}
        new = self._index.with_suffix(".new")
        new.write_text(json.dumps({"newest": offers.newest, "kernels": kernels}, indent=1))
        new.rename(self._index)
        return offers

    def options(self) -> list[str]:
        """Return the options with which an apt program uses these lists and no others."""
        return ["-c", str(self.place / "apt.conf")]

    def _kept(self) -> tuple[Offers | None, float]:
        """Return what was offered when they were fetched, and how many seconds ago that was."""
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
            (self.place / part).mkdir(parents=True, exist_ok=True)
        (self.place / "status").touch()
        (self.place / "apt.conf").write_text(_configuration(self.place))
        (self.place / "sources.sources").write_text(_sources())
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
        # Most archives lack one suite or the other, which apt calls an error. Where no server answers, apt
        # keeps the lists that it has.
        answered = re.search(r"^(Get|Hit):", done.stdout, re.MULTILINE)
        if not answered or not list((self.place / "lists").glob("*_Packages*")):
            raise MachineError(f"the distribution's archive cannot be asked ({_last_error(done.stderr)})")

    def _ask(self, *words: str) -> str:
        return _ask("apt-cache", *self.options(), *_KEEP_PARSED, *words)

    def _newest(self) -> str | None:
        """Return the release for which linux-image-ARCHITECTURE stands in this distribution's own suites."""
        codename = _os_release().get("VERSION_CODENAME", "")
        ours = (codename, f"{codename}-security", f"{codename}-updates")
        targets = _ask("apt-get", *self.options(), "indextargets", "--format", "$(RELEASE) $(CODENAME)")
        suites = {line.split()[0] for line in targets.splitlines() if line.split()[-1] in ours}
        name = f"linux-image-{architecture()}"
        # One line a version, the newest first: PACKAGE | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages
        for line in self._ask("madison", name).splitlines():
            _, version, where = (word.strip() for word in line.split("|"))
            if where.split()[1].partition("/")[0] in suites:
                return _standing_for(self._ask("show", f"{name}={version}"))
        return None


def _pattern() -> str:
    """Return the names of a kernel's packages, as a regular expression."""
    return f"^linux-[a-z]+-[0-9].*-{architecture()}$"


def _kernels(stanzas: str) -> dict[str, Packages]:
    """Return each release's packages: the image's, and those of the same release that it depends on."""
    found: dict[str, dict[str, str]] = {}
    for stanza in _fields_of(stanzas):
        found.setdefault(stanza.get("Package", ""), stanza)  # the newest version comes first
    kernels = {}
    for name in found:
        image = _IMAGE.fullmatch(name)
        # A release has three numbers; linux-image-6.12-amd64 is a package that stands for the newest of them.
        if image is None or image[1].count(".") < 2 or _OTHER_FLAVOURS.search(image[1]):
            continue
        kernels[image[1]] = tuple(_package(found[one]) for one in _with_depended(name, image[1], found))
    return kernels


def _with_depended(name: str, release: str, found: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the package and all of the same release that it depends on: linux-binary-RELEASE, …"""
    names = [name]
    for one in names:  # which grows
        for depended in re.findall(r"[a-z][\w.+~-]+", found[one].get("Depends", "")):
            if depended.endswith(f"-{release}") and depended in found and depended not in names:
                names.append(depended)
    return names


def _package(stanza: Mapping[str, str]) -> Package:
    return Package(
        stanza["Package"],
        stanza["Version"],
        int(stanza.get("Size", 0)),
        int(stanza.get("Installed-Size", 0)) << 10,
    )


def _standing_for(stanzas: str) -> str | None:
    """Return the release of the first package that stands for a kernel: the one it depends on."""
    for stanza in _fields_of(stanzas):
        found = _IMAGE.search(stanza.get("Depends", ""))
        return found[1] if found else None
    return None


def _fields_of(stanzas: str) -> Iterator[dict[str, str]]:
    for stanza in re.split(r"\n\n+", stanzas.strip()):
        lines = (line.partition(": ") for line in stanza.splitlines() if not line.startswith(" "))
        yield {name: text for name, _, text in lines}


def _configuration(place: Path) -> str:
    """Return what is added to the machine's own configuration of apt, with its proxies, for these lists."""
    settings = {
        "Dir::State": place,
        "Dir::State::lists": place / "lists",
        "Dir::State::status": place / "status",
        "Dir::Cache": place / "cache",
        "Dir::Etc::sourcelist": place / "sources.sources",
        "Dir::Etc::sourceparts": place / "none",
        "Dir::Etc::preferences": place / "none/preferences",
        "Dir::Etc::preferencesparts": place / "none",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Acquire::GzipIndexes": "true",
    }
    # The machine's own hooks would act on its own lists.
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
            continue  # of somebody else; what slips through fails the keyring's check
        theirs = suites.setdefault(server, [])
        if distribution != "debian":  # whose suites have the names of releases only
            more: tuple[str, ...] = (suite,)
        elif kind == "security":
            more = _SECURITY
        else:
            more = _SUITES + _BACKPORTS
        theirs += [name for name in more if name not in theirs]
    if not suites:
        raise MachineError(f"apt's sources name no server of {distribution} {codename}")
    return "\n".join(
        f"Types: deb\nURIs: {server}\nSuites: {' '.join(names)}\nComponents: main\n"
        f"Architectures: {architecture()}\nTargets: Packages\nSigned-By: {keyring}\n"
        for server, names in suites.items()
    )


def _machine_suites() -> list[tuple[str, str]]:
    """Return the servers and suites of this machine's own sources, in either of their two formats."""
    # What an update would fetch: one line a file, 'URI' NAME SIZE HASH.
    said = _ask("apt-get", "update", "--print-uris")
    return re.findall(r"^'(.*?)/dists/(.*)/InRelease'", said, re.MULTILINE)


def _os_release() -> dict[str, str]:
    try:
        lines = _OS_RELEASE.read_text().splitlines()
    except OSError:
        return {}
    return {name: text.strip('"') for name, _, text in (line.partition("=") for line in lines)}


def _ask(*command: str) -> str:
    """Return what a program of apt prints; "" where there is none, or where it finds nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout


def _last_error(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith("E: ")]
    return lines[-1].removeprefix("E: ").rstrip(".") if lines else "apt-get says nothing"
