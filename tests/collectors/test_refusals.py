# SPDX-License-Identifier: BSD-2-Clause
"""What the recorder says when the kernel refuses its BPF programs: the program's name and the decisive line.

The warnings are what libbpf 1.1 said on Linux 5.10 and 7.2, instructions left out but for a few.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.collectors.recording import RECORDER, compile_program, needs_btf
from tests.marks import needs_root

# Linux 7.2: struct page has lost a member.
LOST_MEMBER = [
    "libbpf: prog 'rq_issue': BPF program load failed: Invalid argument\n",
    """libbpf: prog 'rq_issue': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; int BPF_PROG(rq_issue, struct request *rq) @ block.bpf.c:205
func 'block_rq_issue' arg0 has btf_id 107144 type STRUCT 'request'
1: R1=ctx() R9=trusted_ptr_request()
; head = address_of((void *)page->compound_head, PROG_ISSUE); @ block_class.h:107
409: <invalid CO-RE relocation>
failed to resolve CO-RE relocation <byte_off> [85] struct page.compound_head (0:0 @ offset 0)
processed 5505 insns (limit 1000000) max_states_per_insn 4 total_states 128 peak_states 127 mark_read 0
-- END PROG LOAD LOG --
""",
    "libbpf: prog 'rq_issue': failed to load: -22\n",
    "libbpf: failed to load object 'block_bpf'\n",
    "libbpf: failed to load BPF skeleton 'block_bpf': -22\n",
]
# Linux 7.2: a function of the kernel takes no pointer to a mutex for a number.
WRONG_ARGUMENT = [
    "libbpf: prog 'mutex_lock': BPF program load failed: Invalid argument\n",
    """libbpf: prog 'mutex_lock': -- BEGIN PROG LOAD LOG --
576: (05) goto pc+0
577: (bf) r1 = r8                     ; R1=ptr_mutex() R8=ptr_mutex()
578: (85) call bpf_get_kmem_cache#68475
R1 is not a scalar
processed 223 insns (limit 1000000) max_states_per_insn 0 total_states 15 peak_states 15 mark_read 0
-- END PROG LOAD LOG --
""",
    "libbpf: prog 'mutex_lock': failed to load: -22\n",
]
# Linux 5.10: no compare-and-swap; and no map of data kept with tasks.
NO_INSTRUCTION = [
    "libbpf: prog 'bio_queue': BPF program load failed: Invalid argument\n",
    """libbpf: prog 'bio_queue': -- BEGIN PROG LOAD LOG --
BPF_STX uses reserved fields
processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
-- END PROG LOAD LOG --
""",
    "libbpf: prog 'bio_queue': failed to load: -22\n",
]
NO_MAP = [
    "libbpf: Error in bpf_create_map_xattr(open_calls):Invalid argument(-22). Retrying without BTF.\n",
    "libbpf: map 'open_calls': failed to create: Invalid argument(-22)\n",
    "libbpf: failed to load object 'calls_bpf'\n",
]
NO_RIGHTS = [
    "libbpf: Error in bpf_object__probe_loading():Operation not permitted(1). Couldn't load a program.\n",
    "libbpf: failed to load object 'block_bpf'\n",
]
NO_TRACEPOINT = [
    "libbpf: prog 'rq_insert': failed to find kernel BTF type ID of 'block_rq_insert': -3\n",
    "libbpf: prog 'rq_insert': failed to prepare load attributes: -3\n",
    "libbpf: prog 'rq_insert': failed to load: -3\n",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """refusal_line, compiled."""
    return compile_program("refusal_line", tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize(
    ("warnings", "line"),
    [
        (
            LOST_MEMBER,
            "BPF program rq_issue: failed to resolve CO-RE relocation"
            " <byte_off> [85] struct page.compound_head (0:0 @ offset 0)",
        ),
        (WRONG_ARGUMENT, "BPF program mutex_lock: R1 is not a scalar"),
        (NO_INSTRUCTION, "BPF program bio_queue: BPF_STX uses reserved fields"),
        (NO_MAP, "BPF map open_calls: failed to create: Invalid argument(-22)"),
        (
            NO_RIGHTS,
            "the BPF programs: Error in bpf_object__probe_loading():Operation not permitted(1)",
        ),
        (
            NO_TRACEPOINT,
            "BPF program rq_insert: failed to find kernel BTF type ID of 'block_rq_insert': -3",
        ),
        ([], ""),
    ],
)
def test_decisive_line_of_the_verifier_is_found(
    tmp_path: Path, program: Path, warnings: list[str], line: str
) -> None:
    files = []
    for number, warning in enumerate(warnings):
        files.append(tmp_path / str(number))
        files[-1].write_text(warning)
    result = subprocess.run([program, *files], capture_output=True, text=True, check=True)
    assert result.stdout == f"{line}\n"


def test_long_verifier_line_is_cut_with_a_mark(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "warning"
    file.write_text(f"libbpf: prog 'rq_issue': {'no ' * 200}\n")
    result = subprocess.run([program, file], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("BPF program rq_issue: no no ")
    assert result.stdout.endswith("...\n")
    assert len(result.stdout) == 200


@needs_root
@needs_btf
def test_probe_without_rights_names_the_refused_program() -> None:
    """Without CAP_PERFMON the kernel takes maps but no program that reads its memory."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is missing: install util-linux")
    without = "-perfmon,-sys_admin"
    words = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", str(RECORDER), "--probe"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    collectors = json.loads(result.stdout.splitlines()[-1])["collectors"]
    for name in ("block", "calls"):
        assert collectors[name]["state"] == "off"
        why = collectors[name]["why"]
        assert why.startswith("the kernel refused BPF program "), why
        assert why.endswith(": Operation not permitted"), why
        assert "CAP_PERFMON" in collectors[name]["remedy"]
