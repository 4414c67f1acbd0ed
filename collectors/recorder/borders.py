# SPDX-License-Identifier: BSD-2-Clause
"""Ask the recorder to cut its time bins where a phase begins or ends (the protocol: recorder/borders.c)."""

import os
import socket
import struct
import time
from pathlib import Path

_PATIENCE_SECONDS = 1.0
_MESSAGE = struct.Struct("=q")


def cut(path: Path | None) -> int | None:
    """Cut now. Returns when, CLOCK_MONOTONIC in ns, a moment that has come; None: the bins are not cut.

    path: the recorder's socket; None: nobody records.
    """
    if path is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
            asker.settimeout(_PATIENCE_SECONDS)
            asker.connect(os.fspath(path))
            asker.send(_MESSAGE.pack(0))
            answer = asker.recv(_MESSAGE.size)
    except OSError:  # no recorder, or one that is too busy: the figures by phase are shared out
        return None
    if len(answer) != _MESSAGE.size:
        return None
    (cut_ns,) = _MESSAGE.unpack(answer)
    if cut_ns <= 0:
        return None
    while (left_ns := cut_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)
    return int(cut_ns)
