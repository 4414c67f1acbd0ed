# SPDX-License-Identifier: BSD-2-Clause
"""Format the plan of a sweep for make plan and for the start of make sweep: lines of a label and a text."""

from collections.abc import Iterator, Sequence

from workloads.cli.disk_options import has_drive
from workloads.disks.loop import scratch_directory
from workloads.plan.format import command_rows
from workloads.plan.plan import Plan
from workloads.sweep.format_finding import finding_rows
from workloads.sweep.sweep_plan import Configuration, SweepPlan
from workloads.system import front
from workloads.system.units import show_seconds, show_size

# Sizes of run directories with their tables, measured on quick and default runs of the catalog: means.
_QUICK_BYTES = 5 << 20
_TRACED_BYTES = 15 << 20
_UNTRACED_BYTES = 52 << 10
_NAMES_SHOWN = 12


def format_sweep(plan: SweepPlan, is_seed_given: bool) -> list[str]:
    """Return the head of the plan, its configurations and what is refused, as lines of text."""
    is_pair = plan.finding is not None
    rows = [("command", front.shown(plan.command))]
    rows += finding_rows(plan) if is_pair else [("sweep", _counts(plan))]
    rows += [("time", _time(plan)), ("disk", _disk(plan))]
    order = "pairs of both, each shuffled" if is_pair else "blocks of all configurations, each shuffled"
    drawn = "" if is_seed_given else f" (drawn; ORDER={plan.order_seed} gives this order again)"
    rows.append(("order", f"{order}; seed {plan.order_seed}{drawn}"))
    first = [str(task.configuration) for task in plan.block(1)]
    anchor = ["anchor"] if plan.has_anchors else []
    rows.append(("pair 1" if is_pair else "block 1", " ".join([*anchor, *_shortened(first)])))
    if plan.goal_pct is not None and not is_pair:
        rows.append(
            ("goal", f"95 % half-width of at most {plan.goal_pct:g} % of the mean, or {plan.most_reps} runs")
        )
    if plan.to_install:
        rows.append(
            (
                "packages",
                f"{' '.join(plan.to_install)} will be installed first; mkfs and mount options unchecked",
            )
        )
    lines = [f"{label:<11} {text}" for label, text in rows]
    lines += ["", *_table(plan)]
    reasons: dict[tuple[str, str], list[str]] = {}
    for refused in plan.refused:
        reasons.setdefault((_part_of(plan, refused.part), refused.why), []).append(refused.label)
    if reasons:
        lines += ["", "refused"]
        lines += [
            f"  {part}{'; '.join(_shortened(labels))}: {why}" for (part, why), labels in reasons.items()
        ]
    if plan.absent:
        lines += ["", "absent"]
        lines += [f"  {each.get('what')}: {each.get('why')}" for each in plan.absent]
    notes: dict[str, list[str]] = {}
    for each in plan.configurations:
        for option, why in each.left_out.items():
            notes.setdefault(f"left out: {option}: {why}", []).append(each.id)
        for note in each.notes:
            notes.setdefault(note, []).append(each.id)
    if notes:
        lines += ["", "notes"]
        lines += [f"  {' '.join(_shortened(ids))}: {note}" for note, ids in notes.items()]
    return lines


def format_commands(plan: SweepPlan, plans: Sequence[Plan]) -> list[str]:
    """Return every command line of the runs, equal ones once. plans: of the configurations, in order."""
    ids: dict[tuple[str, str], list[str]] = {}
    for each, of_run in zip(plan.configurations, plans, strict=True):
        for row in command_rows(of_run):
            ids.setdefault(row, []).append(each.id)
    lines = ["", "commands"]
    for (label, text), users in ids.items():
        lines += [f"  {label:<9} {text}", f"  {'':<9} ({' '.join(_shortened(users))})"]
    return lines


def _counts(plan: SweepPlan) -> str:
    runs = sum(each.reps for each in plan.configurations)
    reps = sorted({each.reps for each in plan.configurations})
    times = f"{reps[0]} runs each" if len(reps) == 1 else f"{reps[0]} to {reps[-1]} runs each"
    if reps == [1]:
        times = "1 run each"
    if plan.goal_pct is not None:
        times = f"{reps[0]} to {plan.most_reps} runs each"
    count = len(plan.configurations)
    most = "" if plan.goal_pct is None else f" to {count * (plan.most_reps or 0)}"
    head = f"{plan.name}: {count} configuration{'s' if count > 1 else ''}, {times}"
    return f"{head}: {runs}{most} runs and 2 anchors"


def _time(plan: SweepPlan) -> str:
    unknown = sum(each.est_seconds is None for each in plan.configurations)
    seconds = sum((each.est_seconds or 0) * each.reps for each in plan.configurations)
    text = f"about {show_seconds(seconds)}" if seconds else "as long as the commands take"
    if plan.goal_pct is not None and seconds:
        most = sum((each.est_seconds or 0) * (plan.most_reps or 0) for each in plan.configurations)
        least, longest = show_seconds(seconds), show_seconds(most)
        text = f"{least} to {longest}" if least != longest else f"about {least}"
    if seconds and unknown:
        text += f", and {unknown} configurations for as long as their command takes"
    if any(has_drive(each.words) for each in plan.configurations):
        text += ", longer for the disk's seeks"
    return text + (", and the anchors" if plan.has_anchors else "")


def _disk(plan: SweepPlan) -> str:
    largest = max(each.size_bytes for each in plan.configurations)
    runs = sum(_run_bytes(each) * each.reps for each in plan.configurations)
    files = f"at most {show_size(largest)} at a time in {scratch_directory()}, " if largest else ""
    return f"{files}about {show_size(runs)} of run directories stay"


def _run_bytes(configuration: Configuration) -> int:
    if not configuration.traced:
        return _UNTRACED_BYTES
    return _QUICK_BYTES if configuration.words.get("SCALE") == "quick" else _TRACED_BYTES


def _part_of(plan: SweepPlan, name: str) -> str:
    """Return what goes before a label to name its part, "" if the sweep has one part."""
    return f"{name}: " if len(plan.parts) > 1 else ""


def _table(plan: SweepPlan) -> Iterator[str]:
    width = max(len(each.label) for each in plan.configurations)
    titles = {str(part["name"]): str(part["title"]) for part in plan.parts}
    yield f"{'':<6} {'configuration':<{max(width, 13)}} {'runs':>5} {'a run':>10} {'disk':>6}"
    before = ""
    for each in plan.configurations:
        if len(plan.parts) > 1 and each.part != before:
            yield f"{each.part}: {titles.get(each.part, '')}"
            before = each.part
        seconds = "?" if each.est_seconds is None else show_seconds(each.est_seconds)
        size = show_size(each.size_bytes) if each.size_bytes else "own"
        marks = "".join(
            [" untraced" if not each.traced else "", " in a virtual machine" if each.virtual else ""]
        )
        yield f"{each.id:<6} {each.label:<{max(width, 13)}} {each.reps:>5} {seconds:>10} {size:>6}{marks}"


def _shortened(names: Sequence[str]) -> list[str]:
    if len(names) <= _NAMES_SHOWN:
        return list(names)
    return [*names[:_NAMES_SHOWN], f"and {len(names) - _NAMES_SHOWN} more"]
