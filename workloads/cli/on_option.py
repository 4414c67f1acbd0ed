# SPDX-License-Identifier: BSD-2-Clause
"""Parse ON=: the machines that carry out a sweep's runs.

ON=tls://HOST:PORT      a scheduler that runs already (tcp:// only on this machine's loopback)
ON="USER@HOST:/TREE …"  machines that this user reaches by ssh; TREE is the path of Seekmeter there
ON=local:2              workers on this machine, which take turns: for trials
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.system.errors import OptionError

_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*", re.ASCII)
_ADDRESS = re.compile(r"([a-z]+)://(\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})", re.ASCII)
_LOCAL_MOST = 16
HOSTS_MOST = 64


@dataclass(frozen=True)
class Host:
    """A machine that ssh reaches."""

    name: str  # as ssh gets it: user@host
    tree: str | None  # the path of Seekmeter's tree there; None: the path of this tree


@dataclass(frozen=True)
class On:
    """The value of ON=; exactly one of the three is given."""

    address: str | None = None
    hosts: tuple[Host, ...] = ()
    local: int = 0


def on_of(given: Mapping[str, str]) -> On | None:
    """Return the machines of ON=, which go with TLS= as they must; None: no ON=. Raises OptionError."""
    if "ON" not in given:
        if "TLS" in given:
            raise OptionError("TLS is for ON=tls://HOST:PORT: add that, or leave TLS out")
        return None
    on = parse_on(given["ON"])
    if "GROUP" in given:
        raise OptionError("GROUP contradicts ON, whose machines have groups of their own: drop one")
    is_encrypted = on.address is not None and on.address.startswith("tls:")
    if is_encrypted and "TLS" not in given:
        raise OptionError(
            f"ON={on.address} needs TLS=DIRECTORY, with this machine's certificates: see docs/RECIPES.md"
        )
    if "TLS" in given and not is_encrypted:
        raise OptionError(f"TLS is for ON=tls://HOST:PORT: leave TLS out with ON={given['ON']}")
    return on


def parse_on(text: str) -> On:
    """Return the machines that ON= names. Raises OptionError."""
    parts = text.split()
    if "://" in text:
        if len(parts) != 1:
            raise OptionError(f"ON={text} names more than one scheduler: give one address")
        return On(address=parse_address(parts[0]))
    if parts and parts[0].startswith("local"):
        number = parts[0].removeprefix("local:")
        if len(parts) > 1 or not (number.isascii() and number.isdigit() and 1 <= int(number) <= _LOCAL_MOST):
            raise OptionError(f"ON={text} is not local:N: N is the number of workers, 1 to {_LOCAL_MOST}")
        return On(local=int(number))
    hosts = tuple(_host(part) for part in parts)
    if len({host.name for host in hosts}) < len(hosts):
        raise OptionError(f"ON={text} names a machine twice: name it once, it runs one thing at a time")
    if len(hosts) > HOSTS_MOST:
        raise OptionError(f"ON= names {len(hosts)} machines: at most {HOSTS_MOST}")
    return On(hosts=hosts)


def parse_address(text: str) -> str:
    """Return a scheduler's address, checked: encrypted, or on this machine's loopback. Raises OptionError."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 1 <= int(match[3]) <= 65535 or match[1] not in ("tls", "tcp"):
        raise OptionError(f"ON={text} is not a scheduler's address: write it like tls://192.0.2.7:8786")
    if match[1] == "tcp" and not _is_loopback(match[2].strip("[]")):
        raise OptionError(
            f"ON={text} is not encrypted, and whoever reaches it may give workers orders: "
            f"use tls://{match[2]}:{match[3]} with TLS=DIRECTORY, or ssh (ON=USER@HOST)"
        )
    return text.replace("//localhost:", "//127.0.0.1:")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"  # any other name is what DNS says at the moment


def _host(text: str) -> Host:
    name, colon, tree = text.partition(":")
    if not _HOST.fullmatch(name):
        raise OptionError(f"ON={text} is not a machine for ssh: write it like USER@HOST or USER@HOST:/TREE")
    if colon and not (tree.startswith("/") and tree.isprintable()):
        raise OptionError(f"ON={text}: {tree!r} is no absolute path: give that of Seekmeter's tree there")
    return Host(name, tree if colon else None)
