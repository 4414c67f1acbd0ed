# SPDX-License-Identifier: BSD-2-Clause
"""What make list shows: file systems, their option sets, workloads and their variants."""

from workloads import catalog, filesystems
from workloads.units import show_seconds


def lines() -> list[str]:
    """Return the list as text."""
    text = ["file systems (FS=NAME or FS=NAME:OPTIONS)"]
    for name in filesystems.names():
        filesystem = filesystems.load(name)
        here = "" if filesystems.kernel_has(name) else " (not in this kernel)"
        text.append(f"  {name:<22} {filesystem.summary}{here}")
        for options in filesystem.option_sets.values():
            what = " ".join(
                [*options.mkfs, *(["mount"] if options.mount else []), ",".join(options.mount)]
            ).strip()
            text.append(f"  {name + ':' + options.name:<22} {what or 'plain defaults'}")
    text += ["", "workloads (WL=NAME or WL=NAME:VARIANT)"]
    for name in catalog.names():
        workload = catalog.load(name)
        times = ", ".join(
            f"{scale} {show_seconds(workload.scales[scale].seconds)}" for scale in workload.scales
        )
        text.append(f"  {name:<22} {workload.summary}")
        text.append(f"  {'':<22} SCALE: {times}")
        for variant, summary in workload.variants.items():
            text.append(f"  {name + ':' + variant:<22} {summary}")
    return text
