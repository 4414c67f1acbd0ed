# SPDX-License-Identifier: BSD-2-Clause
"""Have the recorder cut its time bins where a phase begins or ends (protocol: recorder/borders.c)."""

import os
import socket
import struct
import time
from pathlib import Path

_TIMEOUT_SECONDS = 1.0
_MESSAGE = struct.Struct("=q")


def cut(path: Path | None) -> int | None:
    """Cut the bins now. Returns the time of the cut, CLOCK_MONOTONIC in ns, in the past; None: not cut.

    path: the recorder's socket; None: there is no recorder.
    """
    if path is None:
        return None
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(_TIMEOUT_SECONDS)
            client.connect(os.fspath(path))
            client.send(_MESSAGE.pack(0))
            answer = client.recv(_MESSAGE.size)
    except OSError:  # no recorder, or too busy: bins are then divided between phases by time
        return None
    if len(answer) != _MESSAGE.size:
        return None
    (cut_ns,) = _MESSAGE.unpack(answer)
    if cut_ns <= 0:
        return None
    while (left_ns := cut_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)
    return int(cut_ns)
