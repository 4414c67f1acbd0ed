# SPDX-License-Identifier: BSD-2-Clause
"""`make trace DIR=` on stacks of devices: all layers are found, recorded, counted and reported."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import SECTOR_BYTES, mounted, tmpfs
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import finished
from tests.collectors.stack_kinds import EXT4, KINDS
from tests.collectors.stacks import Site
from tests.marks import needs_root
from workloads.system.guest import GUEST

pytestmark = [needs_root, needs_btf, pytest.mark.long]

CMD = (
    "dd if=/dev/urandom of={0}/a bs=256K count=16 conv=fsync && dd if={0}/a of=/dev/null bs=64K iflag=direct"
)


@pytest.mark.parametrize("name", ["lvm_on_crypt", "raid5", "multipath", "nvme", "thin"])
def test_trace_finds_and_counts_every_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(GUEST, raising=False)
    kind = KINDS[name]
    stacks.need(kind.modules, kind.programs)
    with ExitStack() as undo:
        site = Site(undo.enter_context(tmpfs(tmp_path / "ram", "1G")), undo, kind.disks)
        (top,) = kind.build(site)
        layers = stacks.layers([top])
        site.run(*EXT4, top)
        mnt = undo.enter_context(mounted(top, tmp_path / "mnt", "-o", "commit=300"))
        stacks.idle_stats(layers.devices, kind.quiet_seconds)
        collect, command = "block counters", CMD.format(mnt)
        run = finished(tmp_path / "run", DIR=str(mnt), COLLECT=collect, CMD=command).run
    stack = run.facts["stack"]
    nodes = {node["name"]: node for node in stack["nodes"]}
    assert [root["name"] for root in stack["roots"]] == layers.roots
    for device in layers.volumes:
        assert nodes[device]["recorded"] == "bios", device
    for device in layers.leaves:
        assert nodes[device]["recorded"] == "requests", device
    raw = run.path / "raw/recorder"
    tables = {"bios": NamedRows(raw / "volume.rec"), "requests": NamedRows(raw / "block.rec")}
    for device in layers.devices:
        if device not in stack["at_end"]:  # the kernel keeps no counters of it
            assert nodes[device]["uncounted"]
            continue
        number = _number(nodes[device]["dev"])
        table = tables[nodes[device]["recorded"]]
        for op in ("read", "write"):
            mine = int(table.of(number, op=op)["bytes"].sum())
            assert mine == run.moved(device, f"{op}_bytes"), (device, op)
    top_rows = tables["bios"].of(_number(nodes[layers.roots[0]]["dev"]))
    data = top_rows[tables["bios"].named(top_rows, "class") == "data"]
    assert int(data["bytes"].sum()) == 2 * 16 * 512 * SECTOR_BYTES
    losses = run.losses["collectors"]["block"]["lost"]
    assert sum(losses.values()) == 0, losses
    report = run.report()
    assert "DISKS BELOW THE FILE SYSTEM" in report.upper()
    for device in layers.devices:
        assert device in report


def _number(dev: str) -> int:
    major, minor = map(int, dev.split(":"))
    return major << 20 | minor
