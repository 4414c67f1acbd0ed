# SPDX-License-Identifier: BSD-2-Clause
"""python -P start.py MODULE ARGUMENT…: run a module of this tree, whatever the working directory is.

python -m takes modules from the working directory, which can be anybody's where Seekmeter is installed.
"""

import runpy
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("seekmeter: start.py: name a module to run", file=sys.stderr)
        sys.exit(2)
    sys.path.insert(0, str(TREE))
    del sys.argv[0]  # alter_sys sets the new argv[0] to the module's file
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
