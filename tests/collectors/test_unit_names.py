# SPDX-License-Identifier: BSD-2-Clause
"""Names of cgroups: every layout of services, containers and virtual machines, in trees made by the test."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from collectors.host.container_names import named
from collectors.host.unit_paths import unit_of
from collectors.host.units import FILE, Units

HEX = "0123456789abcdef" * 4
OTHER_HEX = "fedcba9876543210" * 4
UID = "8c3ffbd2-1ae5-4f0b-9d52-7b7a8d6f5f3e"
UNDERSCORED = UID.replace("-", "_")


@pytest.mark.parametrize(
    ("path", "kind", "name"),
    [
        ("/", "root", "/"),
        ("/system.slice", "slice", "system.slice"),
        ("/system.slice/nginx.service", "service", "nginx.service"),
        ("/system.slice/nginx.service/worker", "service", "nginx.service"),
        (
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            "service",
            "postgresql@15-main.service",
        ),
        (r"/system.slice/dev-disk-by\x2dlabel-a\x20b.swap", "service", "dev-disk-by-label-a b.swap"),
        ("/init.scope", "scope", "init.scope"),
        ("/user.slice/user-1000.slice/session-3.scope", "user", "uid 1000"),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", "user", "uid 1000"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service",
            "service",
            "backup.service",
        ),
        ("/seekmeter-12/workload", "cgroup", "/seekmeter-12/workload"),
        (f"/system.slice/docker-{HEX}.scope", "container", f"docker {HEX[:12]}"),
        (f"/docker/{HEX}", "container", f"docker {HEX[:12]}"),
        (f"/docker/{HEX}/system.slice/cron.service", "container", f"docker {HEX[:12]}"),
        (f"/machine.slice/libpod-{HEX}.scope", "container", f"libpod {HEX[:12]}"),
        (f"/machine.slice/libpod-{HEX}.scope/container", "container", f"libpod {HEX[:12]}"),
        (f"/machine.slice/libpod-conmon-{HEX}.scope", "scope", f"libpod-conmon-{HEX}.scope"),
        (f"/libpod_parent/libpod-{HEX}.scope", "container", f"libpod {HEX[:12]}"),
        (f"/libpod_parent/libpod-{HEX}", "container", f"libpod {HEX[:12]}"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice",
            "pod",
            f"pod {UID}",
        ),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/"
            f"cri-containerd-{HEX}.scope",
            "container",
            f"cri-containerd {HEX[:12]}",
        ),
        (
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{HEX}.scope",
            "container",
            f"crio {HEX[:12]}",
        ),
        (f"/kubepods/besteffort/pod{UID}", "pod", f"pod {UID}"),
        (f"/kubepods/besteffort/pod{UID}/{HEX}", "container", f"kubernetes {HEX[:12]}"),
        (f"/kubepods/pod{UID}/{HEX}", "container", f"kubernetes {HEX[:12]}"),
        (r"/machine.slice/machine-qemu\x2d1\x2dweb\x2dserver.scope", "vm", "web-server"),
        (r"/machine.slice/machine-qemu\x2d1\x2dweb.scope/libvirt/emulator", "vm", "web"),
        (r"/machine.slice/machine-debian.scope", "container", "debian"),
        ("/qemu.slice/101.scope", "vm", "VM 101"),
        ("/lxc/202/ns/system.slice/cron.service", "container", "CT 202"),
        ("/lxc.payload.box/init.scope", "container", "box"),
    ],
)
def test_paths_name_their_unit(path: str, kind: str, name: str) -> None:
    unit = unit_of(path)
    assert (unit.kind, unit.name) == (kind, name)


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_containers_have_their_pods_uid(driver: str) -> None:
    path = {
        "systemd": f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{HEX}.scope",
        "cgroupfs": f"/kubepods/burstable/pod{UID}/{HEX}",
    }[driver]
    assert unit_of(path).pod == UID


def test_hostile_paths_are_cleaned() -> None:
    for path in (
        "/\x1b[31mred\x07",
        r"/a\x1b[2J.service",
        "/x" * 4000,
        "/\udcff.service",
        r"/\xff\xfe.service",
    ):
        unit = unit_of(path)
        assert unit.name.isprintable()
        assert len(unit.name) <= 200


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


KUBERNETES = {
    "io.kubernetes.cri.container-name": "app",
    "io.kubernetes.cri.sandbox-name": "web-0",
    "io.kubernetes.cri.sandbox-namespace": "shop",
}
CRIO = {
    "io.kubernetes.container.name": "app",
    "io.kubernetes.pod.name": "web-0",
    "io.kubernetes.pod.namespace": "shop",
}
CONTAINERD = f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{HEX}/config.json"
STORAGE = "run/containers/storage/overlay-containers"


@pytest.mark.parametrize(
    ("path", "file", "content", "name"),
    [
        (f"/docker/{HEX}", f"var/lib/docker/containers/{HEX}/config.v2.json", {"Name": "/web"}, "web"),
        (
            f"/kubepods/pod{UID}/{HEX}",
            f"var/lib/docker/containers/{HEX}/config.v2.json",
            {"Name": "/k8s_app_web-0", "Config": {"Labels": CRIO}},
            "shop/web-0/app",
        ),
        (
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{HEX}.scope",
            CONTAINERD,
            {"annotations": KUBERNETES},
            "shop/web-0/app",
        ),
        (f"/kubepods/burstable/pod{UID}/{HEX}", CONTAINERD, {"annotations": KUBERNETES}, "shop/web-0/app"),
        (
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{HEX}.scope",
            f"{STORAGE}/{HEX}/userdata/config.json",
            {"annotations": CRIO},
            "shop/web-0/app",
        ),
        (
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-{HEX}.scope",
            f"{STORAGE}/{HEX}/userdata/config.json",
            {"annotations": {**CRIO, "io.kubernetes.container.name": "POD"}},
            "shop/web-0",
        ),
        (
            f"/machine.slice/libpod-{HEX}.scope",
            "var/lib/containers/storage/overlay-containers/containers.json",
            [{"id": OTHER_HEX, "names": ["no"]}, {"id": HEX, "names": ["web"]}],
            "web",
        ),
        (
            "/qemu.slice/101.scope",
            "etc/pve/qemu-server/101.conf",
            "cores: 2\nname: db\n[old]\nname: x\n",
            "VM 101 db",
        ),
        ("/lxc/202", "etc/pve/lxc/202.conf", "hostname: mail\n", "CT 202 mail"),
    ],
)
def test_runtimes_files_name_containers(
    tmp_path: Path, path: str, file: str, content: object, name: str
) -> None:
    write(tmp_path / file, content)
    assert named(unit_of(path), tmp_path).name == name


def test_hostile_files_give_no_name(tmp_path: Path) -> None:
    unit, short = unit_of(f"/docker/{HEX}"), f"docker {HEX[:12]}"
    config = tmp_path / f"var/lib/docker/containers/{HEX}/config.v2.json"
    for content in (
        "",
        "[" * 100_000,
        "[]",
        '{"Name": 7}',
        '{"Name": "/a", "Config": {"Labels": 1',
        "\0" * 5,
    ):
        write(config, content)
        assert named(unit, tmp_path).name == short
    write(config, {"Name": "/\x1b[31mred\n" + "x" * 9000})
    assert named(unit, tmp_path).name.isprintable()
    assert len(named(unit, tmp_path).name) <= 200
    config.unlink()
    write(tmp_path / "elsewhere.json", {"Name": "/stolen"})
    config.symlink_to(tmp_path / "elsewhere.json")
    assert named(unit, tmp_path).name == short
    config.unlink()
    os.mkfifo(config)
    assert named(unit, tmp_path).name == short
    config.unlink()
    with config.open("wb") as file:
        file.truncate(1 << 30)
    assert named(unit, tmp_path).name == short


def lines(raw: Path) -> dict[int, dict[str, object]]:
    """Return the last line of each number."""
    return {row["cgroup"]: row for row in map(json.loads, (raw / FILE).read_text().splitlines())}


def test_names_are_kept_after_death(tmp_path: Path) -> None:
    tree, host = tmp_path / "tree", tmp_path / "host"
    service, container = tree / "system.slice/web.service", tree / "docker" / HEX
    service.mkdir(parents=True)
    units = Units(tmp_path, tree, host)
    container.mkdir(parents=True)
    numbers = {"service": service.stat().st_ino, "container": container.stat().st_ino}
    units.walk()
    assert lines(tmp_path)[numbers["container"]]["name"] == f"docker {HEX[:12]}"
    write(host / f"var/lib/docker/containers/{HEX}/config.v2.json", {"Name": "/db"})
    units.walk()
    container.rmdir()
    before_ns = time.monotonic_ns()
    units.walk()
    (host / f"var/lib/docker/containers/{HEX}/config.v2.json").unlink()
    units.stop()
    found = lines(tmp_path)
    assert (found[numbers["container"]]["kind"], found[numbers["container"]]["name"]) == ("container", "db")
    gone_ns = found[numbers["container"]]["gone_ns"]
    assert isinstance(gone_ns, int)
    assert before_ns <= gone_ns
    assert found[numbers["service"]]["name"] == "web.service"
    assert found[numbers["service"]]["gone_ns"] is None
    assert units.facts()["cgroups"] == len(found) == len([tree, *tree.rglob("*"), container])


def test_too_large_trees_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.host.units.CGROUPS_MOST", 10)
    tree = tmp_path / "tree"
    for number in range(30):
        (tree / f"{number}.service").mkdir(parents=True)
    units = Units(tmp_path, tree)
    units.stop()
    assert units.facts()["left_out"] == 21
    assert len(lines(tmp_path)) == 10
