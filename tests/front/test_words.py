# SPDX-License-Identifier: BSD-2-Clause
"""The words on make's command line reach the jobs byte for byte, and nothing else does."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TREE = Path(__file__).parents[2]

# A job of its own, in a makefile that includes the real one: it prints what a job's program gets.
_SHOW = """
include Makefile
show:
	@$(CLEAN) python3 -c 'import json, os; print(json.dumps({k: v for k, v in os.environ.items()}))'
"""


def words_of(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment a job gets from make called with these arguments."""
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
def test_a_value_arrives_byte_for_byte(text: str) -> None:
    assert words_of(f"CMD={text}")["SEEKMETER_CMD"].encode() == text.encode()


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_any_value_arrives_byte_for_byte(text: str) -> None:
    # make strips white space in front of a value (GNU make manual, "Setting Variables").
    assert words_of(f"CMD={text}")["SEEKMETER_CMD"] == text.lstrip(" \t\n\v\f\r")


def test_nothing_in_a_value_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    environment = words_of(f"CMD=$(shell touch {mark})", f"ARGS=$(eval X:=$(shell touch {mark}))")
    assert environment["SEEKMETER_CMD"] == f"$(shell touch {mark})"
    assert not mark.exists()


def test_the_environment_does_not_count() -> None:
    given_there = {"FS": "ext4", "DISK": "/dev/sda", "ERASE": "/dev/sda", "V": "1"}
    environment = words_of("WL=compilebench", environment=given_there)
    assert environment["SEEKMETER_WORDS"].split() == ["WL"]
    assert "SEEKMETER_DISK" not in environment
    assert environment["DISK"] == "/dev/sda"  # the workload still sees its user's environment


def test_every_name_is_handed_on_known_or_not() -> None:
    # Names the Makefile itself uses too: a mistyped word must not change how it works.
    environment = words_of(
        "FS=ext3", "fs=ext4", "SHELL=/bin/false", "CC=false", "PATH=/nowhere", "GIVEN=x", "Q=x"
    )
    assert set(environment["SEEKMETER_WORDS"].split()) == {"FS", "fs", "SHELL", "CC", "PATH", "GIVEN", "Q"}
    assert environment["SEEKMETER_FS"] == "ext3"


def test_the_workload_does_not_get_this_makes_flags() -> None:
    environment = words_of("FS=ext3", "V=1")
    assert not {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FS", "V"} & set(environment)
    assert environment["SEEKMETER_WORDS"].split() == ["FS"]
