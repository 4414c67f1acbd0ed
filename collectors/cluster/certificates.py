# SPDX-License-Identifier: BSD-2-Clause
"""TLS for a session: a private authority made by openssl, and a certificate for each of its members.

Keys of a session are in memory only: openssl reads and writes them through nameless files and pipes, ssh
carries them on its standard input, and nothing is left to remove. The authority's own key ends with the
process: nobody can join a session later.

python -m collectors.cluster.certificates DIRECTORY NAME…   makes DIRECTORY/NAME/ for TLS=, a member each
"""

import os
import secrets
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from workloads.system.errors import MachineError, OptionError, UserError

_DAYS = 30
_CONFIG = """\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[member]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_PEM_BYTES_MOST = 64 << 10
FILES = {"authority": "ca.pem", "certificate": "cert.pem", "key": "key.pem"}


@dataclass(frozen=True)
class Member:
    """One member's certificates, as PEM."""

    authority: str  # the certificate by which it knows the other members
    certificate: str
    key: str


class Authority:
    """The authority of one session."""

    def __init__(self) -> None:
        """Raises MachineError where openssl is missing or fails."""
        self._key = _new_key()
        self.certificate = _openssl(
            *("req", "-x509", "-new", "-sha256", "-days", str(_DAYS), "-subj", "/CN=Seekmeter session"),
            *("-extensions", "authority"),
            files={"-key": self._key, "-config": _CONFIG},
        )

    def member(self, name: str) -> Member:
        """Return the certificates of a new member."""
        key = _new_key()
        request = _openssl("req", "-new", "-subj", f"/CN={name}", files={"-key": key, "-config": _CONFIG})
        certificate = _openssl(
            *("x509", "-req", "-sha256", "-days", str(_DAYS), "-set_serial", str(secrets.randbits(127) + 1)),
            *("-extensions", "member"),
            files={"-CA": self.certificate, "-CAkey": self._key, "-extfile": _CONFIG, "-in": request},
        )
        return Member(self.certificate, certificate, key)


def read(directory: str) -> Member:
    """Return the certificates in TLS=DIRECTORY. Raises OptionError if unusable or readable by others."""
    texts = {}
    for field, name in FILES.items():
        path = Path(directory) / name
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(file, encoding="ascii") as opened:
                status = os.fstat(file)
                text = opened.read(_PEM_BYTES_MOST)
        except (OSError, ValueError) as error:
            why = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no text"
            raise OptionError(
                f"TLS={directory}: {name} cannot be read ({why}): TLS= is a directory with "
                f"{', '.join(FILES.values())}, made by python -m collectors.cluster.certificates"
            ) from None
        if not stat.S_ISREG(status.st_mode) or "-----BEGIN " not in text:
            raise OptionError(f"TLS={directory}: {name} is no PEM file: give the directory of a member")
        if field == "key" and (status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid())):
            raise OptionError(f"TLS={directory}: {name} is not yours alone: chown it, and chmod 600 it")
        texts[field] = text
    return Member(**texts)


def write(directory: Path, member: Member) -> None:
    """Write the certificates into a new directory (0700, files 0600). Raises OSError."""
    directory.mkdir(mode=0o700)
    for field, name in FILES.items():
        file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as opened:
            opened.write(getattr(member, field))


def _new_key() -> str:
    return _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")


def _openssl(*arguments: str, files: dict[str, str] | None = None) -> str:
    """Run openssl. files: option, and the content of the nameless file that the option names."""
    command, descriptors = ["openssl", *arguments], []
    try:
        for option, text in (files or {}).items():
            file = os.memfd_create("pem")
            descriptors.append(file)
            os.write(file, text.encode())
            command += [option, f"/proc/self/fd/{file}"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=descriptors, check=False
        )
    except FileNotFoundError:
        raise MachineError("openssl is missing, which makes certificates for TLS: install openssl") from None
    finally:
        for file in descriptors:
            os.close(file)
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise MachineError(f"openssl {arguments[0]} failed: {' '.join(last)}")
    return done.stdout.decode("ascii")


def main(directory: str, names: list[str]) -> int:
    """Write a directory for each member. Returns the exit code."""
    try:
        if not names:
            raise OptionError("no members are named: give a name for the scheduler, and one for each machine")
        authority = Authority()
        base = Path(directory)
        base.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            write(base / name, authority.member(name))
            print(base / name)
    except UserError as error:
        print(f"seekmeter: {error.message}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"seekmeter: {error.filename}: {(error.strerror or '').lower()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "tls", sys.argv[2:]))
