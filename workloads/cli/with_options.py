# SPDX-License-Identifier: BSD-2-Clause
"""The word WITH: other people's tracers, and our own scripts for them, to run beside the workload.

WITH="bpftrace:NAME bpftrace:FILE bcc:TOOL 'bcc:TOOL ARGUMENT ...'": one word each; in quotes with arguments.
And mkfs, fsck: these are recorded too, as phases before and after the workload.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from workloads.system.command import find_program
from workloads.system.errors import OptionError, nearest

SCRIPTS = Path(__file__).resolve().parents[2] / "bpf/scripts"
# Where distributions have bcc's tools; Debian puts them into sbin as NAME-bpfcc.
_BCC_FOLDERS = (Path("/usr/share/bcc/tools"), Path("/usr/local/share/bcc/tools"))
_DEBIAN = "-bpfcc"
KINDS = ("bpftrace", "bcc")
RECORDED_TOO = ("mkfs", "fsck")


@dataclass(frozen=True)
class With:
    """One program to run beside the workload."""

    kind: str  # bpftrace or bcc
    name: str  # of our script, of the file, or of the tool
    file: Path | None  # the script; None: a tool of bcc
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What it is called in a run: bpftrace:journal_commits."""
        return f"{self.kind}:{self.name}"


def our_scripts() -> list[str]:
    """Return the names of our bpftrace scripts."""
    return sorted(path.stem for path in SCRIPTS.glob("*.bt"))


def of_script(name: str) -> str:
    """Return what a script of ours shows: the first sentence of its head."""
    text = (SCRIPTS / f"{name}.bt").read_text().partition("\n//\n")[2]
    sentence = " ".join(line.removeprefix("//").strip() for line in text.splitlines()[:3])
    return sentence.partition(". ")[0].partition(" needs:")[0].removesuffix(".")


def find_bcc_tool(name: str) -> Path | None:
    """Return where a tool of bcc is."""
    debian = find_program(name + _DEBIAN)
    if debian is not None:
        return Path(debian)
    for folder in _BCC_FOLDERS:
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return folder / name
    return None


def bcc_tools() -> list[str]:
    """Return the names of the tools of bcc that are installed."""
    search = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    found = {
        name for folder in _BCC_FOLDERS for name in _names(folder) if not name.startswith(("lib", "doc"))
    }
    for folder in search.split(":"):
        found |= {name.removesuffix(_DEBIAN) for name in _names(Path(folder)) if name.endswith(_DEBIAN)}
    return sorted(found)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # PATH may name what is not there, or not for us


def parse_with(text: str) -> dict[str, object]:
    """Return {"with_programs": ..., "with_steps": ...} for options.py. Raises OptionError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"WITH={text} cannot be split into words: {str(error).lower()}") from None
    chosen = tuple(_one(word) for word in words if word not in RECORDED_TOO)
    too = tuple(word for word in words if word in RECORDED_TOO)
    if len(chosen) != len(set(chosen)) or len(too) != len(set(too)):
        raise OptionError(f"WITH={text} names the same thing twice: leave one out")
    return {"with_programs": chosen, "with_steps": too}


def _one(word: str) -> With:
    kind, colon, rest = word.partition(":")
    if kind not in KINDS or not colon:
        hint = nearest(kind, KINDS if colon else RECORDED_TOO)
        raise OptionError(
            f"WITH={word}: write bpftrace:NAME, bpftrace:FILE, bcc:TOOL, mkfs or fsck"
            + (f" ({hint})" if colon or hint.startswith("did") else "")
        )
    name, *arguments = rest.split() or [""]
    if kind == "bcc":
        return _tool(word, name.removesuffix(_DEBIAN), tuple(arguments))
    if "/" in name or name.endswith(".bt"):
        file = Path(name).absolute()
        if not file.is_file() or not os.access(file, os.R_OK):
            raise OptionError(
                f"WITH={word}: {name} is not a file that can be read: give the path of a script"
            )
        return With(kind, file.stem, file, tuple(arguments))
    if name not in our_scripts():
        raise OptionError(
            f"WITH={word}: there is no script {name!r} of ours: {nearest(name, our_scripts())}"
            " (a file of your own is written with a slash: bpftrace:./NAME.bt)"
        )
    return With(kind, name, SCRIPTS / f"{name}.bt", tuple(arguments))


def _tool(word: str, name: str, arguments: tuple[str, ...]) -> With:
    """A tool of bcc. Where none is installed at all, setup installs them, and then this is asked again."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise OptionError(
            f"WITH={word}: {name!r} is not the name of a tool of bcc: write it like bcc:biolatency"
        )
    tools = bcc_tools()
    if tools and name not in tools:
        raise OptionError(f"WITH={word}: no tool {name!r} of bcc is installed: {nearest(name, tools)}")
    return With("bcc", name, None, arguments)
