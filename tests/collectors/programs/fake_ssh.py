#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Stands for ssh: runs the command on this machine, and carries the connections of -L and -R.

FAKE_SSH_LOG gets the arguments of each start, one line of JSON.
"""

import json
import os
import socket
import subprocess
import sys
import threading


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until the source ends."""
    try:
        while chunk := source.recv(65536):
            target.sendall(chunk)
    except OSError:
        pass
    finally:
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def forward(spec: str) -> None:
    """Listen on HOST:PORT and connect to the HOST:PORT behind it."""
    host, port, to_host, to_port = spec.split(":")
    listener = socket.create_server((host, int(port)))

    def serve() -> None:
        while True:
            ours = listener.accept()[0]
            try:
                theirs = socket.create_connection((to_host, int(to_port)))
            except OSError:
                ours.close()
                continue
            for pair in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


with open(os.environ["FAKE_SSH_LOG"], "a") as log:
    log.write(json.dumps(sys.argv) + "\n")
arguments = sys.argv[1:]
for number, argument in enumerate(arguments):
    if argument in ("-L", "-R"):
        forward(arguments[number + 1])
command = arguments[arguments.index("--") + 2]
sys.exit(subprocess.run(["/bin/sh", "-c", command], check=False).returncode)
