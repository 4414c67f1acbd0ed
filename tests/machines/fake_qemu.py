# SPDX-License-Identifier: BSD-2-Clause
"""A program in QEMU's place, for what a guest may do that cannot be had from a real one.

fake_qemu.py RUN stuck LINES…   prints the lines on the guest's console and hangs: QEMU where KVM is a lie
fake_qemu.py RUN ends           comes up, says one line, ends with exit status 0
fake_qemu.py RUN hangs          comes up, says one line, gives signs of life for a second, and no more

A guest talks through RUN/raw/.vm as workloads/machines/init.c does.
"""

import sys
import time
from pathlib import Path


def main(run: Path, behaviour: str, lines: list[str]) -> None:
    """Be the guest."""
    talk = run / "raw/.vm"
    if behaviour == "stuck":
        print(*lines, sep="\r\n", file=sys.stderr, flush=True)
        time.sleep(600)
    print("said inside", flush=True)
    for beat in range(5):
        (talk / "alive").write_text(str(beat))
        time.sleep(0.25)
    if behaviour == "hangs":
        time.sleep(600)
    (talk / "exit").write_text("0\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
