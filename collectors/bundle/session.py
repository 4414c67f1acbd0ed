# SPDX-License-Identifier: BSD-2-Clause
"""python -m collectors.bundle.session FILE SECONDS: write the session as one file, session.pyz of a bundle.

`python3 session.pyz MODULE ARGUMENT…` runs a module of collectors/ or workloads/, as `python3 -m` does in the
tree. Every file in it has the time SECONDS (of the commit), so that two builds are byte for byte the same.
Data and programs are plain files beside it (workloads/system/tree.py).
"""

import sys
import time
import zipfile
from pathlib import Path

from workloads.system.tree import TREE

ROOMS = ("collectors", "workloads")
_MAIN = """\
# SPDX-License-Identifier: BSD-2-Clause
import runpy
import sys

if len(sys.argv) < 2:
    sys.exit("seekmeter: session.pyz: name a module to run: use ./seekmeter")
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_FILE, _FOLDER = 0o100644, 0o40755
_OLDEST = 315_532_800  # 1980, where the format's times begin


def write(path: Path, seconds: int) -> None:
    """Write session.pyz."""
    files = {
        str(file.relative_to(TREE)): file.read_bytes()
        for room in ROOMS
        for file in (TREE / room).rglob("*.py")
    }
    # Packages without __init__.py are found by the entry of their folder.
    folders = {f"{parent}/": b"" for name in files for parent in Path(name).parents if parent.name}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted({**files, **folders, "__main__.py": _MAIN.encode()}.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(max(seconds, _OLDEST))[:6])
            entry.create_system = 3  # Unix
            entry.external_attr = (_FOLDER if name.endswith("/") else _FILE) << 16
            archive.writestr(entry, content, zipfile.ZIP_STORED if not content else zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
