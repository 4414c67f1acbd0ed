# SPDX-License-Identifier: BSD-2-Clause
"""Stands for make sweep, or make verify if FINDING= is given, with a stub as make trace.

sweep_driver.py FOLDER NAME=VALUE…; runs/ is in FOLDER.
"""

import os
import sys
from pathlib import Path

from collectors.host import signals
from collectors.host.console import tell
from collectors.sweep import command
from workloads.sweep.from_words import sweep_request
from workloads.system.errors import UserError

STUB = Path(__file__).with_name("trace_stub.py")


def main(folder: str, *words: str) -> int:
    """Carry out the sweep. Returns the exit code."""
    signals.catch()
    os.environ["SEEKMETER_RUNS_IN"] = folder
    try:
        given = dict(word.split("=", 1) for word in words)
        env = {f"SEEKMETER_{name}": text for name, text in given.items()}
        env["SEEKMETER_WORDS"] = " ".join(given)
        request = command.requested(env, "verify") if "FINDING" in given else sweep_request(given)
        assert request is not None
        command.run_sweep(request, (sys.executable, "-S", "-E", str(STUB), folder))
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: interrupted before the run began")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
