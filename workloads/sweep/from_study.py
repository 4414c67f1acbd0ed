# SPDX-License-Identifier: BSD-2-Clause
"""Make the Request of make study NAME=… SCALE=…: a study's parts at that scale."""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from workloads import filesystems, studies
from workloads.catalog import SCALES
from workloads.cli.disk_options import has_drive, parse_disk, parse_erase, quoted
from workloads.cli.options import STUDY_WORDS
from workloads.studies.schema import Study, StudyPart
from workloads.studies.schema import Subject as StudySubject
from workloads.sweep.from_words import REPS_MOST, tracing_of, whole
from workloads.sweep.request import Part, Request, Subject
from workloads.system.errors import OptionError, nearest
from workloads.system.units import parse_size, show_size

# Words of the command line that replace the study's own in every run.
_OF_EVERY_RUN = ("SIZE", "MEM", "COLLECT", "VM", "GROUP", "TIME")
_LEAST_INSIDE_BYTES = 1 << 30
_INSIDE = "runs in a virtual machine, which takes most of a minute to start"


@dataclass(frozen=True)
class _Disks:
    """DISK=: the first is the file system's, the second the journal's or the second of a striped one."""

    names: tuple[str, ...]

    @property
    def is_real(self) -> bool:
        return self.names[0].startswith("/")

    def apply(self, words: Mapping[str, str]) -> dict[str, str]:
        """Return words whose DISK and JOURNAL, if they are files, are on these disks."""
        placed = dict(words)
        count = len(words.get("DISK", "file").split())
        chosen = self.names[:count]
        if not self.is_real:
            chosen += self.names[-1:] * (count - len(chosen))
        placed["DISK"] = " ".join(map(quoted, chosen))
        if words.get("JOURNAL") == "file" and (len(self.names) > 1 or not self.is_real):
            placed["JOURNAL"] = self.names[-1] if len(self.names) == 1 else self.names[1]
        if self.is_real:
            placed.pop("SIZE", None)
            used = [*chosen, *([placed["JOURNAL"]] if placed.get("JOURNAL", "").startswith("/") else [])]
            placed["ERASE"] = " ".join(map(quoted, used))
        return placed

    def lacks(self, words: Mapping[str, str]) -> bool:
        """Return whether the words name more disks than there are devices."""
        return self.is_real and len(words.get("DISK", "file").split()) > len(self.names)


def study_request(given: Mapping[str, str]) -> Request:
    """Return the request of make study with these variables. Raises OptionError."""
    if "NAME" not in given:
        raise OptionError(f"no study is named: add NAME=NAME ({nearest('', studies.names())})")
    study = studies.find(given["NAME"])
    scale = given.get("SCALE", "default")
    if scale not in SCALES:
        raise OptionError(f"SCALE={scale} is not a scale: {nearest(scale, SCALES)}")
    disks = _disks(given)
    if "TIME" in given and not has_drive(given):
        raise OptionError("TIME needs an emulated disk: add DISK=hdd, or leave TIME out")
    chosen = _chosen(study, given["FS"]) if "FS" in given else None
    reps = whole(given, "REPS", 1, REPS_MOST) if "REPS" in given else None
    own = {name: given[name] for name in _OF_EVERY_RUN if name in given}
    return Request(
        name=f"{study.name}-{scale}",
        command=" ".join(["make study", *(f"{name}={shlex.quote(text)}" for name, text in given.items())]),
        words=dict(given),
        parts=tuple(_part(part, scale, own, reps, disks) for part in study.parts),
        order_seed=whole(given, "ORDER", 0, 2**63 - 1) if "ORDER" in given else None,
        tracing=tracing_of(given),
        out=given.get("OUT"),
        study={
            "name": study.name,
            "scale": scale,
            "toml": study.toml_at(scale),
            "published": [figure.as_json() for figure in study.published],
        },
        absent=tuple(_absent(each) for each in study.absent),
        old_schedulers=True,
        leave_out=_LeaveOut(study, scale, chosen, own.get("VM"), disks),
    )


def planned_study(given: Mapping[str, str]) -> Request:
    """Return the request of make plan STUDY=… with these variables. Raises OptionError."""
    for name in given:
        if name != "STUDY" and (name == "NAME" or name not in STUDY_WORDS):
            raise OptionError(f"{name} does not fit STUDY={given['STUDY']}: leave it out")
    words = {"NAME": given["STUDY"], **{name: text for name, text in given.items() if name != "STUDY"}}
    return study_request(words)


def _part(
    part: StudyPart, scale: str, own: Mapping[str, str], reps: int | None, disks: _Disks | None
) -> Part:
    """Return one part of the study at a scale: its words, then those of the command line."""
    at = part.scales[scale]
    words = {**at.words, **own}
    axes = {name: values for name, values in at.axes.items() if name not in own}
    subjects = [_words_of(subject, words, own) for subject in part.subjects]
    if "WL" in {*words, *axes, *(name for each in subjects for name in each)}:
        words["SCALE"] = scale
    if disks is not None:
        if clash := {"DISK", "JOURNAL"} & set(axes):
            raise OptionError(
                f"DISK contradicts part {part.name}, whose axis is {min(clash)}: leave DISK out"
            )
        subjects = [disks.apply({**words, **each}) for each in subjects]
        words = disks.apply(words)
    return Part(
        name=part.name,
        words=words,
        axes=axes,
        subjects=tuple(
            Subject(subject.label, each) for subject, each in zip(part.subjects, subjects, strict=True)
        ),
        reps=reps or at.reps,
        title=part.title,
        seconds=at.seconds,
    )


def _words_of(subject: StudySubject, words: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return a subject's words where the command line has none; in a virtual machine with room for tracing.

    MEM of a virtual machine is all of its memory: with 256M the kernel ended the recorder.
    """
    chosen = {name: text for name, text in subject.words.items() if name not in own}
    all_words = {**words, **chosen}
    if "MEM" in all_words and "MEM" not in own and _is_inside(all_words):
        with suppress(ValueError):  # of a file of the user's: the planner names the fault
            chosen["MEM"] = show_size(max(parse_size(all_words["MEM"]), _LEAST_INSIDE_BYTES))
    return chosen


def _is_inside(words: Mapping[str, str]) -> bool:
    """Return whether a run is in a virtual machine, as machines/choice.py chooses."""
    if "VM" in words or "KERNEL" in words:
        return words.get("VM") != "0"
    name = words.get("FS", "").partition(":")[0]
    is_real = words.get("DISK", "").startswith("/")
    return name in filesystems.names() and not is_real and not filesystems.kernel_has(name)


@dataclass(frozen=True)
class _LeaveOut:
    """Why the study, at this scale and with these words, leaves a run out: "" if it is run."""

    study: Study
    scale: str
    chosen: frozenset[str] | None  # labels that FS= names; None: all
    vm: str | None  # VM=
    disks: _Disks | None

    def __call__(self, part_name: str, label: str, words: Mapping[str, str], axes: Mapping[str, str]) -> str:
        part = next(part for part in self.study.parts if part.name == part_name)
        at = part.scales[self.scale]
        if self.chosen is not None and label not in self.chosen:
            return "left out by FS="
        if at.skip or label in at.without:
            return f"left out at SCALE={self.scale}: {at.why}"
        subject = next(subject for subject in part.subjects if subject.label == label)
        if self.disks is not None and self.disks.lacks({**at.words, **subject.words}):
            return f"DISK names {len(self.disks.names)} device, and {label} is on several: name more"
        if _is_inside(words):
            here = len(os.sched_getaffinity(0))
            if words.get("CPUS", "").isdigit() and int(words["CPUS"]) > here:
                return f"CPUS={words['CPUS']}: this machine has {here}, and a virtual machine adds none"
            is_first = all(axes[name] == values[0] for name, values in at.axes.items() if name in axes)
            if self.vm is None and (at.inside == "none" or (at.inside == "first" and not is_first)):
                return f"left out at SCALE={self.scale}: {words['FS'].partition(':')[0]} {_INSIDE}"
        return ""


def _disks(given: Mapping[str, str]) -> _Disks | None:
    """Return what DISK= names, with ERASE= checked; None without DISK=. Raises OptionError."""
    erase = list(parse_erase(given["ERASE"])["erase"]) if "ERASE" in given else []  # type: ignore[call-overload]
    if "DISK" not in given:
        if erase:
            raise OptionError(f"ERASE={erase[0]} has nothing to allow: it goes with DISK={erase[0]}")
        return None
    parsed = parse_disk(given["DISK"])
    disks = _Disks((str(parsed["disk"]), *map(str, parsed["more_disks"])))  # type: ignore[call-overload]
    real = [name for name in disks.names if name.startswith("/")]
    if sorted(real) != sorted(erase):
        names = shlex.quote(" ".join(map(quoted, real)))
        raise OptionError(
            f"DISK={given['DISK']} would be erased: to allow that give the same names again, ERASE={names}"
            if real
            else f"ERASE={erase[0]} has nothing to allow: DISK names no device"
        )
    if real and "SIZE" in given:
        raise OptionError("SIZE contradicts a real DISK: the whole device is used; drop SIZE")
    return disks


def _chosen(study: Study, text: str) -> frozenset[str]:
    """Return the labels of the subjects that FS= names: by label, group, file system or its options."""
    names: dict[str, set[str]] = {}
    for part in study.parts:
        for subject in part.subjects:
            fs = subject.words.get("FS", "")
            for name in (subject.label, subject.group, fs, fs.partition(":")[0]):
                names.setdefault(name, set()).add(subject.label)
    try:
        wanted = [text] if text in names else shlex.split(text)
    except ValueError as error:
        raise OptionError(f"FS={text} cannot be split into names: {str(error).lower()}") from None
    for name in wanted:
        if name not in names:
            hint = nearest(name, sorted(filter(None, names)))
            raise OptionError(f"FS={name} is no subject of {study.name}: {hint}")
    return frozenset().union(*(names[name] for name in wanted))


def _absent(each: Mapping[str, str]) -> dict[str, str]:
    """Return what no run shows, with this machine's CPUs and memory in the reason."""
    memory = show_size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    here = {"{cpus}": str(len(os.sched_getaffinity(0))), "{memory}": memory}
    texts = dict(each)
    for name, text in here.items():
        texts = {key: value.replace(name, text) for key, value in texts.items()}
    return texts
