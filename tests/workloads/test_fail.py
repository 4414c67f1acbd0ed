# SPDX-License-Identifier: BSD-2-Clause
"""The last words of a generator: one line in one write, of one process, also where many fail at once."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.workloads.programs import (
    FLAGS,
    clear_error,
    common_library,
    compile_generator,
    lying_library,
    run,
)

REPETITIONS = 50
PROCESSES = 64
# All of them wait for the end of a pipe, and fail; then their parent does.
MANY = f"""
    #include <stdio.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #include "common/session/fail.h"
    int main(void)
    {{
        int ends[2];
        char byte;

        fail_as_one();
        if (pipe(ends) != 0)
            return 99;
        for (int i = 0; i < {PROCESSES}; i++) {{
            pid_t pid = fork();

            if (pid < 0)
                return 99;
            if (pid > 0)
                continue;
            close(ends[1]);
            if (read(ends[0], &byte, 1) != 0)
                return 99;
            printf("progress\\n");
            fail(1, "task %d: failed, as %d others did", i, {PROCESSES} - 1);
        }}
        close(ends[1]);
        while (wait(NULL) > 0)
            continue;
        fail(1, "a task failed");
    }}
"""
# All tasks come to it while the others are made, and get their answer at one moment.
FAIL_TOGETHER = """
    #include <stdlib.h>
    #include <time.h>
    ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
        long long ms = atoll(getenv("WHEN_MS"));
        struct timespec when = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
        (void)fd, (void)b, (void)n, (void)at;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
        errno = EIO; return -1; }
    ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) { return pwrite(fd, b, n, at); }
"""


def compiled(code: str, program: Path) -> Path:
    """Make a program that uses what the generators share."""
    words = ["gcc", *FLAGS, "-xc", "-", "-xnone", str(common_library()), "-o", str(program), "-pthread"]
    subprocess.run(words, input=code, text=True, check=True)
    return program


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of many processes that fail at once."""
    return compiled(MANY, tmp_path_factory.mktemp("program") / "many")


def writes_of(program: Path) -> list[bytes]:
    """Run it, its standard error and output one socket that keeps writes apart. Returns each of them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ends = theirs.fileno()
        process = subprocess.Popen([program], stdout=ends, stderr=ends, stdin=subprocess.DEVNULL)
        theirs.close()
        ours.settimeout(60)
        writes = []
        while write := ours.recv(65536):
            writes.append(write)
        assert process.wait(60) == 1
        return writes


def test_one_process_reports_the_failure(many: Path) -> None:
    for _ in range(REPETITIONS):
        progress, words, *others = writes_of(many)
        assert progress == b"progress\n"
        assert set(others) <= {b"progress\n"}  # of those that are silent
        number = words.decode().removeprefix("seekmeter: task ").partition(":")[0]
        assert 0 <= int(number) < PROCESSES
        assert words.decode() == f"seekmeter: task {number}: failed, as {PROCESSES - 1} others did\n"


def test_killed_reporter_leaves_the_message_to_another(many: Path, tmp_path: Path) -> None:
    lies = lying_library(
        tmp_path,
        """
        #include <signal.h>
        ssize_t write(int fd, const void *b, size_t n) {
            char name[] = "0";
            for (; fd == 2 && name[0] < '3'; name[0]++)
                if (open(name, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0)
                    kill(getpid(), SIGKILL);
            return syscall(SYS_write, fd, b, n); }
        """,
    )
    done = subprocess.run(
        [many],
        cwd=tmp_path,
        env={"LD_PRELOAD": str(lies)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert clear_error(done).startswith("seekmeter: task ")
    assert {path.name for path in tmp_path.iterdir()} >= {"0", "1", "2"}


def test_long_message_is_cut(tmp_path: Path) -> None:
    code = '#include "common/session/fail.h"\n'
    code += 'int main(int n, char **word) { (void)n; fail(1, "%s", word[1]); }\n'
    said = clear_error(run(compiled(code, tmp_path / "long"), "x" * 10000))
    assert said == "seekmeter: " + "x" * (4096 - 12) + "\n"


def test_aim7_tasks_report_one_failure_once(tmp_path: Path) -> None:
    """By writes in pieces, 43 of 50 such runs went wrong on two CPUs."""
    aim7 = compile_generator("aim7", tmp_path)
    lies = lying_library(tmp_path, FAIL_TOGETHER)
    mix = tmp_path / "mix"
    mix.write_text("disk_write 1\n")
    for number in range(8):
        place = tmp_path / str(number)
        place.mkdir()
        when_ms = time.monotonic_ns() // 1_000_000 + 300
        done = run(aim7, "-D", place, "-m", mix, "-n", 256, LD_PRELOAD=lies, WHEN_MS=str(when_ms))
        assert clear_error(done) == "seekmeter: disk: cannot write: input/output error\n"
