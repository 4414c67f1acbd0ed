# SPDX-License-Identifier: BSD-2-Clause
"""Variables of make's command line reach the jobs byte for byte; variables of the environment do not."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TREE = Path(__file__).parents[2]

# A makefile that includes the Makefile; its job show prints the environment that a job's program gets.
_SHOW = """
include Makefile
show:
	@$(CLEAN) python3 -c 'import json, os; print(json.dumps({k: v for k, v in os.environ.items()}))'
"""


def job_environment(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a job that make starts with these arguments."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-f", "-", "show", *arguments],
        input=_SHOW,
        cwd=TREE,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SEEKMETER_")},
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, str] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    "text",
    [
        """sh -c "echo \\"$HOME $$ it's\\" > x\"""",
        "for f in $(ls /srv); do echo ${f} $f `id`; done",
        "a # not a comment",
        "back\\slash \\\\ \\$HOME \\",
        "two\nlines\twith a tab",
        "trailing spaces   ",
        "x = y := z += $(CC) $@ $< $^ $% %",
        "100% ~ * ? [a-z] {1,2} !! && || ; & | > <",
        "größe ✓ \x07",
        "-n --just-print",
        "'",
        '"',
        "$",
        "(",
        "",
    ],
)
def test_value_reaches_the_job_byte_for_byte(text: str) -> None:
    assert job_environment(f"CMD={text}")["SEEKMETER_CMD"].encode() == text.encode()


@settings(max_examples=20, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_any_value_reaches_the_job_byte_for_byte(text: str) -> None:
    # make strips white space before a value (GNU make manual, "Setting Variables").
    assert job_environment(f"CMD={text}")["SEEKMETER_CMD"] == text.lstrip(" \t\n\v\f\r")


def test_make_runs_nothing_inside_a_value(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    environment = job_environment(f"CMD=$(shell touch {mark})", f"ARGS=$(eval X:=$(shell touch {mark}))")
    assert environment["SEEKMETER_CMD"] == f"$(shell touch {mark})"
    assert not mark.exists()


def test_variables_of_the_environment_are_ignored() -> None:
    given_there = {"FS": "ext4", "DISK": "/dev/sda", "ERASE": "/dev/sda", "V": "1"}
    environment = job_environment("WL=compilebench", environment=given_there)
    assert environment["SEEKMETER_WORDS"].split() == ["WL"]
    assert "SEEKMETER_DISK" not in environment
    assert environment["DISK"] == "/dev/sda"  # the workload keeps its user's environment


def test_every_variable_name_reaches_the_job() -> None:
    # Also names that the Makefile uses: a mistyped variable must not change how the Makefile works.
    environment = job_environment(
        "FS=ext3", "fs=ext4", "SHELL=/bin/false", "CC=false", "PATH=/nowhere", "GIVEN=x", "Q=x"
    )
    assert set(environment["SEEKMETER_WORDS"].split()) == {"FS", "fs", "SHELL", "CC", "PATH", "GIVEN", "Q"}
    assert environment["SEEKMETER_FS"] == "ext3"


def test_job_environment_lacks_the_flags_of_make() -> None:
    environment = job_environment("FS=ext3", "V=1")
    assert not {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FS", "V"} & set(environment)
    assert environment["SEEKMETER_WORDS"].split() == ["FS"]


@pytest.mark.parametrize(("job", "what"), [("watch", "run"), ("sweep", "cluster")])
def test_command_of_a_watch_needs_no_cluster(job: str, what: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "-f", "-", job, "ON=local:2"],
        input="include Makefile\n$(info setup $(SETUP))\n",
        cwd=TREE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[0] == f"setup {what} {job}", done.stderr
