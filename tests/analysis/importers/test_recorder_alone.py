# SPDX-License-Identifier: BSD-2-Clause
"""make import of what the recorder left without a session: the report of watch, and hostile archives."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import MachineError, OptionError
from analysis.importers.recorder_alone import files
from analysis.importers.recorder_alone.changes import changes_of
from analysis.importers.recorder_alone.facts import SCHEMA, facts_of, losses_of, read_object
from analysis.importers.trace import import_trace
from analysis.measures.results import measure
from analysis.render import text
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.importers.test_import_job import run_job
from tests.analysis.synthetic import START_NS, Spec, request, run_json

SECONDS = 10.0
JOURNAL = [30_000_001, 30_262_145]


def alone_json(**more: Any) -> dict[str, Any]:
    """alone.json as the recorder writes it, of the machine and disk of a synthetic run."""
    run = run_json(SECONDS)
    device = run["device"]
    node = {
        key: device[key] for key in ("name", "dev", "size_bytes", "model", "scheduler", "rotational", "queue")
    }
    return {
        "schema": SCHEMA,
        "recorder": "0.1.0",
        "state": "complete",
        "ended": "time",
        "dev": device["name"],
        "secs": SECONDS,
        "max_bytes": 0,
        "clock": {
            "realtime_offset_ns": run["clock"]["realtime_offset_ns"],
            "record_start_ns": START_NS,
            "record_end_ns": START_NS + int(SECONDS * 1e9),
        },
        "kernel": run["kernel"],
        "machine": run["machine"],
        "collect": ["block", "locks", "calls", "counters"],
        "device": {key: value for key, value in device.items() if key != "kind"},
        "stack": {
            "roots": [{"name": device["name"], "dev": device["dev"], "role": "watched"}],
            "nodes": [
                {
                    **{**node, "kind": "loop", "label": device["name"]},
                    **{"recorded": "requests", "why_not": "", "below": []},
                }
            ],
            "parts": [],
            "at_start": {device["name"]: {"read_bytes": 0, "write_bytes": 0}},
            "at_end": {device["name"]: {"read_bytes": 0, "write_bytes": 409600}},
            "states_at_start": {device["name"]: {"sectors": 1, "below": [], "state": {}}},
            "states_at_end": {device["name"]: {"sectors": 1, "below": [], "state": {}}},
        },
        "mounts": [{"name": "ext3", "mount_point": "/srv", "dev": device["dev"], "device": device["name"]}],
        "journals": [{"device": device["name"], "dev": device["dev"], "extents": [JOURNAL]}],
        "own_files": {"dev": "254:0", "inodes": [7]},
        "warnings": [],
        **more,
    }  # fmt: skip


def spec() -> Spec:
    requests = [request(START_NS + 10**9 + n * 10**7, 8 * n * n) for n in range(100)]
    requests += [request(START_NS + 5 * 10**9 + n * 10**6, JOURNAL[0] + 8 * n) for n in range(50)]
    return Spec(block=requests)


def write_recording(folder: Path, **more: Any) -> Path:
    """A directory as the recorder leaves it."""
    made = spec().write(folder.with_name("synthetic"))
    folder.mkdir()
    (made / "raw/recorder").rename(folder / "recorder")
    (made / "losses.json").rename(folder / "recorder/losses.json")
    (folder / "alone.json").write_text(json.dumps(alone_json(**more)))
    for name in ("mountinfo", "diskstats-before", "diskstats-after"):
        (folder / name).write_text("what the kernel printed\n")
    return folder


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "server")


def report_of(path: Path) -> str:
    run = open_run(path)
    tables = load_tables(run)
    return text.render(make_document(run, tables, measure(run, tables)))


def watch_run() -> dict[str, Any]:
    """run.json of a watch of the same device."""
    alone, run = alone_json(), run_json(SECONDS)
    clock = run["clock"]
    clock |= {"workload_start_ns": START_NS, "workload_end_ns": clock["record_end_ns"]}
    stack = {key: value for key, value in alone["stack"].items() if not key.startswith("states_")}
    return {
        **{key: run[key] for key in ("schema", "state", "exit_status", "kernel", "machine", "warnings")},
        "command": "make watch DEV=loop3 SECS=10",
        "words": {"DEV": "loop3", "SECS": "10"},
        "collect": alone["collect"],
        "start_realtime": "2023-11-14T22:30:00Z",
        "clock": clock,
        "tools": {"seekmeter": "0.1.0"},
        "device": {**run["device"], "kind": "watch"},
        "workload": {"name": "watch", "argv": [], "source": "the live system"},
        "stack": {**stack, "states": {}, "changes": []},
        "filesystem": {
            "numbers": ["7:3"],
            "mounts": alone["mounts"],
            "synced_before": False,
            "geometry": {"journal": [JOURNAL]},
        },
        "own_files": alone["own_files"],
    }


def pack(recording: Path, archive: Path, mode: str, *names: str) -> Path:
    with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
        for name in names or (recording.name,):
            tar.add(recording.parent / name, name)
    return archive


@pytest.mark.parametrize("form", ["server", "server.tar", "server.tar.gz", "./server.tgz", "server/."])
def test_the_report_is_that_of_a_watch(form: str, recording: Path, tmp_path: Path) -> None:
    watched = spec()
    watched.run = watch_run()
    phase = {"name": "watch", "start_ns": START_NS, "end_ns": watched.run["clock"]["record_end_ns"]}
    watched.phases = [{**phase, "ops": 0, "bytes": 0}]
    expected = watched.write(tmp_path / "watched" / "run")
    if "tar" in form or "tgz" in form:
        pack(recording, tmp_path / form, "w:gz" if "gz" in form else "w")
    (tmp_path / "imported").mkdir()
    run = import_trace(tmp_path / form, tmp_path / "imported" / "run")
    facts = json.loads((run / "run.json").read_text())
    same = {key: value for key, value in facts.items() if key != "start_realtime"}
    for key in ("alone", "command", "words"):
        same.pop(key)
    assert same == {key: watched.run[key] for key in same}
    (run / "run.json").write_text(json.dumps({**watched.run, "command": facts["command"]}))
    with_own = report_of(run)
    (run / "run.json").write_text(json.dumps({**facts, "start_realtime": "2023-11-14T22:30:00Z"}))
    assert report_of(run) == with_own
    assert facts["command"] == watched.run["command"]
    assert report_of(expected).splitlines()[3:] == with_own.splitlines()[3:]


def test_the_job_reports_it(recording: Path, tmp_path: Path) -> None:
    pack(recording, tmp_path / "server.tar.gz", "w:gz")
    done = run_job(tmp_path, "import", "server.tar.gz")
    assert done.returncode == 0, done.stderr
    assert "Seekmeter: loop3 (ext3 on /srv) watch, 10.0 s" in done.stdout
    (run,) = [path for path in (tmp_path / "runs").iterdir() if not path.is_symlink()]
    assert run.name.endswith("-import-server") and (run / "report.txt").exists()


def test_a_directory_packed_from_inside_is_imported(recording: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "flat.tar", "w") as tar:
        tar.add(recording, ".")
    assert import_trace(tmp_path / "flat.tar", tmp_path / "run") == tmp_path / "run"


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    trace = write_recording(tmp_path / "server", schema=SCHEMA + 1, recorder="9.9")
    with pytest.raises(MachineError, match=r"recorder 9\.9 with schema 2.*update Seekmeter") as refused:
        import_trace(trace, tmp_path / "run")
    assert refused.value.exit_code == 3
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("schema", [None, "1", 0, -3, [], 1e400])
def test_a_recording_without_a_schema_is_refused(schema: Any, tmp_path: Path) -> None:
    trace = write_recording(tmp_path / "server")
    (trace / "alone.json").write_text(json.dumps(alone_json(schema=schema)))
    with pytest.raises(OptionError):
        import_trace(trace, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_killed_recorder_gives_an_interrupted_run(tmp_path: Path) -> None:
    trace = write_recording(tmp_path / "server", state="recording", ended=None)
    (trace / ".alone.json.new").write_text("{")
    losses = json.loads((trace / "recorder/losses.json").read_text())
    losses["recorder"]["until_ns"] = START_NS + 3 * 10**9
    (trace / "recorder/losses.json").write_text(json.dumps({**losses, "complete": False}))
    alone = alone_json(state="recording")
    alone["clock"]["record_end_ns"] = 0
    (trace / "alone.json").write_text(json.dumps(alone))
    run = open_run(import_trace(trace, tmp_path / "run"))
    assert run.state == "interrupted" and run.ended_early("block")
    assert run.facts["clock"]["record_end_ns"] == START_NS + 3 * 10**9


def add(archive: Path, recording: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A whole recording, and these members."""
    with tarfile.open(archive, "w") as tar:
        for member, data in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data))
        tar.add(recording, "server")
    return archive


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


HOSTILE = [
    info("server/recorder/block.rec", tarfile.SYMTYPE, "/etc/passwd"),
    info("server/recorder/block.rec", tarfile.LNKTYPE, "server/alone.json"),
    info("server/alone.json", tarfile.SYMTYPE, "../../x"),
    info("server/recorder", tarfile.SYMTYPE, "/tmp"),
    info("server/recorder/lock.jsonl", tarfile.FIFOTYPE),
    info("server/recorder/lock.jsonl", tarfile.CHRTYPE),
    info("/etc/cron.d/job"),
    info("server/../../escape"),
    info("../recorder/block.rec"),
    info("server/recorder/../../x.rec"),
    info("server/recorder/.bashrc"),
    info("server/recorder/UPPER.rec"),
    info("server/recorder/a.rec/b.rec"),
    info("server/run.json"),
    info("other/recorder/call.rec"),
    info("server/deep/recorder/call.rec"),
    info("server/recorder/block.rec"),  # twice, with the one of the recording
    info("server/alone.json"),
    info("server/recorder/" + "a" * 50 + ".rec"),
    info("server/recorder/\x1b[2J.rec"),
]


@pytest.mark.parametrize("member", HOSTILE, ids=lambda member: repr(member.name))
def test_a_hostile_member_is_refused(member: tarfile.TarInfo, recording: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    archive = add(tmp_path / "server.tar", recording, (member, b"x"))
    with pytest.raises(OptionError) as refused:
        import_trace(archive, tmp_path / "run")
    assert "\x1b" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, archive])


def test_what_is_too_large_is_refused(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (recording / "mountinfo").write_bytes(b" " * ((16 << 20) + 1))
    with pytest.raises(OptionError, match="too large"):
        import_trace(pack(recording, tmp_path / "server.tar.gz", "w:gz"), tmp_path / "run")
    (recording / "mountinfo").write_bytes(b"")
    monkeypatch.setattr(files, "MOST_BYTES", 10_000)
    with pytest.raises(OptionError):
        import_trace(recording, tmp_path / "run")
    monkeypatch.setattr(files, "MOST_BYTES", 1 << 40)
    monkeypatch.setattr(files, "MOST_FILES", 3)
    with pytest.raises(OptionError):
        import_trace(recording, tmp_path / "run")


def test_a_cut_archive_is_refused_at_every_place(recording: Path, tmp_path: Path) -> None:
    for packed in ("w", "w:gz"):
        whole = pack(recording, tmp_path / "whole", packed).read_bytes()
        archive = tmp_path / "server.tar"
        for cut in range(600, len(whole), len(whole) // 15):
            archive.write_bytes(whole[:cut])
            with contextlib.suppress(OptionError):
                run = import_trace(archive, tmp_path / f"run-{packed[1:]}-{cut}")
                # Cut in the zeros behind the last file.
                assert open_run(run).state == "complete" and cut > len(whole) * 0.6


def test_damaged_archives_end_in_an_error(recording: Path, tmp_path: Path) -> None:
    whole = bytearray(pack(recording, tmp_path / "whole", "w").read_bytes())
    archive = tmp_path / "server.tar"
    for place in range(0, 2048, 37):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0xFF
        archive.write_bytes(spoilt)
        with contextlib.suppress(OptionError):
            import_trace(archive, tmp_path / f"run-{place}")


def test_a_gzip_file_of_something_else_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "sda.gz").write_bytes(gzip.compress(b"text\n" * 100))
    with pytest.raises(OptionError, match="compressed"):
        import_trace(tmp_path / "sda.gz", tmp_path / "run")


def test_links_and_pipes_in_a_directory_are_refused(recording: Path, tmp_path: Path) -> None:
    (recording / "recorder/hold.rec").symlink_to("/etc/passwd")
    with pytest.raises(OptionError):
        import_trace(recording, tmp_path / "run")
    (recording / "recorder/hold.rec").unlink()
    os.mkfifo(recording / "recorder/hold.rec")
    with pytest.raises(OptionError, match="not a regular file"):
        import_trace(recording, tmp_path / "run")


def test_a_recording_without_its_losses_is_refused(recording: Path, tmp_path: Path) -> None:
    (recording / "recorder/losses.json").unlink()
    with pytest.raises(OptionError, match=r"lacks recorder/losses\.json"):
        import_trace(recording, tmp_path / "run")


WRONG: list[Any] = [
    None,
    7,
    -1,
    1e308,
    "text",
    [],
    {},
    [[]],
    {"a": {"b": None}},
    [None, 3, "x"],
    True,
    "\x1b[2J",
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container of a JSON value with each of its keys."""
    for key in (
        list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from places(value[key])


def test_facts_of_another_type_are_no_crash() -> None:
    alone = alone_json()
    alone["journals"].append({"device": "dm-0", "dev": "253:0", "extents": [[1, 2]]})
    losses = {"complete": True, "collectors": {"block": {"state": "on"}}, "recorder": {"until_ns": 5}}
    whole = {"alone": alone, "losses": losses}
    for container, key in list(places(whole)):
        kept = container[key]
        for value in WRONG:
            container[key] = value
            with contextlib.suppress(OptionError):
                plain = [
                    read_object(Path("t"), name, json.dumps(whole[name]).encode())
                    for name in ("alone", "losses")
                ]
                facts = facts_of(Path("t"), *plain)
                assert "\x1b" not in json.dumps([facts, losses_of(*plain)])
                assert 0 < facts["clock"]["record_start_ns"] < facts["clock"]["record_end_ns"] < 1 << 62
        container[key] = kept


@pytest.mark.parametrize("key", ["stack", "mounts", "own_files", "kernel", "device"])
def test_a_report_is_made_of_wrong_facts(key: str, tmp_path: Path) -> None:
    trace = write_recording(tmp_path / "server")
    (trace / "alone.json").write_text(json.dumps(alone_json(**{key: [[{"a": 1e308}]]})))
    assert "\x1b" not in report_of(import_trace(trace, tmp_path / "run"))


def test_changes_are_told() -> None:
    before = {
        "md0": {
            "sectors": 100,
            "below": ["sda", "sdb"],
            "state": {"degraded": 0, "members": "sda:in_sync sdb:in_sync"},
        },
        "sdc": {"sectors": 1, "below": []},
    }
    after = {
        "md0": {
            "sectors": 50,
            "below": ["sda"],
            "state": {"degraded": 1, "members": "sda:in_sync sdb:faulty,blocked"},
        }
    }
    assert changes_of(before, before) == []
    assert changes_of(before, after) == [
        "md0: shrank from 51.2 kB to 25.6 kB",
        "md0: lost sdb during the run",
        "md0: sdb failed during the run",
        "md0: degraded was 0 at the start and is 1 at the end",
        "sdc: gone during the run",
    ]  # fmt: skip
