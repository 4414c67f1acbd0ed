# SPDX-License-Identifier: BSD-2-Clause
"""WITH=: programs of bpftrace and bcc that run during the workload, and steps that are recorded too.

WITH="bpftrace:NAME bpftrace:FILE bcc:TOOL 'bcc:TOOL ARGUMENT ...'": items separated by blanks, an item with
arguments in quotes. The items mkfs and fsck record these steps as phases before and after the workload.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from workloads.system.command import find_program
from workloads.system.errors import OptionError, nearest
from workloads.system.tree import TREE

SCRIPTS = TREE / "bpf/scripts"
# Directories of bcc's tools; Debian has them in sbin as NAME-bpfcc.
_BCC_FOLDERS = (Path("/usr/share/bcc/tools"), Path("/usr/local/share/bcc/tools"))
_DEBIAN_SUFFIX = "-bpfcc"
KINDS = ("bpftrace", "bcc")
RECORDED_STEPS = ("mkfs", "fsck")


@dataclass(frozen=True)
class With:
    """One program that runs during the workload."""

    kind: str  # bpftrace or bcc
    name: str  # of our script, of the file, or of the tool
    file: Path | None  # the script; None: a tool of bcc
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in run.json and reports: bpftrace:journal_commits."""
        return f"{self.kind}:{self.name}"


def our_scripts() -> list[str]:
    """Return the names of the project's bpftrace scripts."""
    return sorted(path.stem for path in SCRIPTS.glob("*.bt"))


def script_summary(name: str) -> str:
    """Return a script's summary: the first sentence of its opening comment."""
    text = (SCRIPTS / f"{name}.bt").read_text().partition("\n//\n")[2]
    sentence = " ".join(line.removeprefix("//").strip() for line in text.splitlines()[:3])
    return sentence.partition(". ")[0].partition(" needs:")[0].removesuffix(".")


def find_bcc_tool(name: str) -> Path | None:
    """Return the path of a bcc tool; None if it is not installed."""
    debian = find_program(name + _DEBIAN_SUFFIX)
    if debian is not None:
        return Path(debian)
    for folder in _BCC_FOLDERS:
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return folder / name
    return None


def bcc_tools() -> list[str]:
    """Return the names of the installed bcc tools."""
    search = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    tools = {
        name for folder in _BCC_FOLDERS for name in _names(folder) if not name.startswith(("lib", "doc"))
    }
    for folder in search.split(":"):
        tools |= {
            name.removesuffix(_DEBIAN_SUFFIX)
            for name in _names(Path(folder))
            if name.endswith(_DEBIAN_SUFFIX)
        }
    return sorted(tools)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # PATH may have a directory that does not exist or cannot be read


def parse_with(text: str) -> dict[str, object]:
    """Return the fields with_programs and with_steps of Options. Raises OptionError."""
    try:
        items = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"WITH={text} cannot be split into words: {str(error).lower()}") from None
    programs = tuple(_program(item) for item in items if item not in RECORDED_STEPS)
    steps = tuple(item for item in items if item in RECORDED_STEPS)
    if len(programs) != len(set(programs)) or len(steps) != len(set(steps)):
        raise OptionError(f"WITH={text} names the same thing twice: leave one out")
    return {"with_programs": programs, "with_steps": steps}


def _program(item: str) -> With:
    """Parse one item that is a program. Raises OptionError."""
    kind, colon, rest = item.partition(":")
    if kind not in KINDS or not colon:
        hint = nearest(kind, KINDS if colon else RECORDED_STEPS)
        raise OptionError(
            f"WITH={item}: write bpftrace:NAME, bpftrace:FILE, bcc:TOOL, mkfs or fsck"
            + (f" ({hint})" if colon or hint.startswith("did") else "")
        )
    name, *arguments = rest.split() or [""]
    if kind == "bcc":
        return _tool(item, name.removesuffix(_DEBIAN_SUFFIX), tuple(arguments))
    if "/" in name or name.endswith(".bt"):
        file = Path(name).absolute()
        if not file.is_file() or not os.access(file, os.R_OK):
            raise OptionError(
                f"WITH={item}: {name} is not a file that can be read: give the path of a script"
            )
        return With(kind, file.stem, file, tuple(arguments))
    if name not in our_scripts():
        raise OptionError(
            f"WITH={item}: there is no script {name!r} of ours: {nearest(name, our_scripts())}"
            " (a file of your own is written with a slash: bpftrace:./NAME.bt)"
        )
    return With(kind, name, SCRIPTS / f"{name}.bt", tuple(arguments))


def _tool(item: str, name: str, arguments: tuple[str, ...]) -> With:
    """Return a bcc tool. If no tool is installed, setup installs the package, and the check is repeated."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise OptionError(
            f"WITH={item}: {name!r} is not the name of a tool of bcc: write it like bcc:biolatency"
        )
    tools = bcc_tools()
    if tools and name not in tools:
        raise OptionError(f"WITH={item}: no tool {name!r} of bcc is installed: {nearest(name, tools)}")
    return With("bcc", name, None, arguments)
