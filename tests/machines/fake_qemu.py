# SPDX-License-Identifier: BSD-2-Clause
"""A program in QEMU's place, for what a guest may do that cannot be had from a real one.

fake_qemu.py MARK SHARED stuck LINES…  prints the lines on the guest's console and hangs: KVM is a lie
fake_qemu.py MARK SHARED ends          comes up, says one line, ends with exit status 0
fake_qemu.py MARK SHARED hangs         comes up, says one line, lives for a second, gives no sign any more
fake_qemu.py MARK SHARED plants FILE   comes up, puts links to FILE where the host reads and writes, ends

MARK: by which its process is found. A guest talks through SHARED/raw/.vm as workloads/machines/init.c does.
"""

import shutil
import sys
import time
from pathlib import Path


def main(run: Path, behaviour: str, lines: list[str]) -> None:
    """Be the guest."""
    talk = run / "raw/.vm"
    if behaviour == "stuck":
        print(*lines, sep="\r\n", file=sys.stderr, flush=True)
        time.sleep(600)
    print("said inside\x1b]0;OWNED\x07", flush=True)
    for beat in range(5):
        (talk / "alive").write_text(str(beat))
        time.sleep(0.25)
    if behaviour == "hangs":
        time.sleep(600)
    if behaviour == "plants":
        for name in (
            "run.json",
            ".run.json.new",
            "losses.json",
            "raw/workload.out",
            "raw/recorder/losses.json",
        ):
            (run / name).unlink(missing_ok=True)
            (run / name).symlink_to(lines[0])
        shutil.copy("/bin/true", run / "raw/true")
        (run / "raw/true").chmod(0o6755)
        (run / "raw/fine").write_text("fine\n")
    (talk / "exit").write_text("0\n")


if __name__ == "__main__":
    main(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
