# SPDX-License-Identifier: BSD-2-Clause
"""What a cgroup's path says: the service, container, pod, virtual machine or user that it is of.

The deepest unit counts, but what lies inside a container or virtual machine is the container's: a systemd in
it has units of its own.
"""

import re
from dataclasses import dataclass, replace

SERVICE, SCOPE, SLICE, CONTAINER, POD, VM, USER = (
    *("service", "scope", "slice", "container", "pod", "vm", "user"),
)
ROOT, OTHER = "root", "cgroup"
_TEXT_MOST = 200
_SHORT_ID = 12
_HEX = r"(?P<id>[0-9a-f]{64})"
# Directories of containers: systemd's scopes, podman's and CRI-O's without systemd, and the cgroupfs
# driver's bare numbers, by the directory above.
_SCOPES = re.compile(rf"(?P<runtime>docker|libpod|cri-containerd|crio|nerdctl)-{_HEX}(?:\.scope)?")
_BARE = re.compile(_HEX)
_POD = re.compile(r"(?:kubepods(?:-burstable|-besteffort)?-)?pod(?P<uid>[0-9A-Za-z_-]{8,64})(?:\.slice)?")
_RUNTIME_OF_PARENT = {"docker": "docker", "libpod_parent": "libpod", "crio": "crio", "default": "nerdctl"}
_MACHINE = re.compile(r"machine-(?P<how>qemu-\d+-|lxc-\d+-)?(?P<name>.+)\.scope")
_USER = re.compile(r"user-(?P<uid>\d+)\.slice")
_UNITS = re.compile(r".+\.(?P<type>service|scope|slice|mount|socket|swap)")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


@dataclass(frozen=True)
class Unit:
    """What a cgroup is of. runtime and id: where a container's own name is to be looked up."""

    kind: str
    name: str
    pod: str = ""
    runtime: str = (
        ""  # docker, libpod, cri-containerd, crio, nerdctl, pve-qemu, pve-lxc; "": the name is whole
    )
    id: str = ""


def cleaned(text: str) -> str:
    """Return a text of others fit for a terminal: one line of limited length, of printable letters."""
    return "".join(c if c.isprintable() else "?" for c in text[:_TEXT_MOST])


def unescaped(component: str) -> str:
    """Undo systemd's escapes of a unit's name: machine-qemu\\x2d1 is machine-qemu-1."""
    data = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), component)
    try:
        return cleaned(data.encode("latin-1").decode("utf-8"))
    except UnicodeError:
        return cleaned(data)


def unit_of(path: str) -> Unit:
    """Return what a path below cgroup2's root is of; "/" is the root itself, where kernel threads are."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return Unit(ROOT, "/")
    unit, pod, user = Unit(OTHER, cleaned(path)), "", ""
    for at, part in enumerate(parts):
        parent = parts[at - 1] if at else ""
        is_below_pods = parent.startswith("kubepods") or parent in ("burstable", "besteffort")
        if is_below_pods and (found := _POD.fullmatch(part)):
            pod = cleaned(found["uid"].replace("_", "-"))
            unit = Unit(POD, f"pod {pod}", pod)
            continue
        if outer := _container_of(part, parent, pod) or _machine_of(part, parent):
            return replace(outer, pod=pod)
        if found := _USER.fullmatch(part):
            user = found["uid"]
            unit = Unit(USER, f"uid {user}")
        elif (found := _UNITS.fullmatch(part)) and not _says_less(part, unit, user):
            kind = found["type"] if found["type"] in (SERVICE, SCOPE, SLICE) else SERVICE
            unit = Unit(kind, unescaped(part), pod)
    return unit


def _says_less(part: str, unit: Unit, user: str) -> bool:
    """Whether a unit's name is no news: a slice in a service, a session or manager of a user."""
    if part.endswith(".slice"):
        return unit.kind not in (OTHER, SLICE)
    return bool(user) and (part.startswith(("session-", "user@")) or part == "init.scope")


def _container_of(part: str, parent: str, pod: str) -> Unit | None:
    found = _SCOPES.fullmatch(part)
    if found:
        runtime = found["runtime"]
    else:
        found = _BARE.fullmatch(part)
        if not found or not (pod or parent in _RUNTIME_OF_PARENT):
            return None
        runtime = _RUNTIME_OF_PARENT.get(parent, "kubernetes")
    return Unit(CONTAINER, f"{runtime} {found['id'][:_SHORT_ID]}", pod, runtime, found["id"])


def _machine_of(part: str, parent: str) -> Unit | None:
    """Virtual machines and containers of libvirt, systemd-nspawn, Proxmox and LXC."""
    if found := _MACHINE.fullmatch(unescaped(part)):
        is_vm = (found["how"] or "").startswith("qemu")
        return Unit(VM if is_vm else CONTAINER, found["name"])
    if parent == "qemu.slice" and (found := re.fullmatch(r"(?P<id>\d{1,9})\.scope", part)):
        return Unit(VM, f"VM {found['id']}", runtime="pve-qemu", id=found["id"])
    if parent == "lxc" and (found := re.fullmatch(r"(?P<id>\d{1,9})", part)):
        return Unit(CONTAINER, f"CT {found['id']}", runtime="pve-lxc", id=found["id"])
    if part.startswith("lxc.payload.") or (parent == "lxc" and part != "ns"):
        return Unit(CONTAINER, cleaned(part.removeprefix("lxc.payload.")))
    return None
