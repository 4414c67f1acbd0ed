# SPDX-License-Identifier: BSD-2-Clause
"""A member's certificates as Dask wants them: names of files, which are nameless files of this process."""

import os
import ssl

from distributed import Security

from collectors.cluster.certificates import Member


def security(member: Member | None) -> Security | None:
    """Return Dask's settings for TLS in every role; None: no TLS, on loopback.

    The files stay open as long as the process: Dask reads them for each connection that it makes.
    """
    if member is None:
        return None
    authority, certificate, key = map(_nameless, (member.authority, member.certificate, member.key))
    roles = ("client", "scheduler", "worker")
    return Security(  # type: ignore[no-untyped-call]
        require_encryption=True,
        tls_ca_file=authority,
        **{f"tls_{role}_cert": certificate for role in roles},
        **{f"tls_{role}_key": key for role in roles},
    )


def why(error: BaseException) -> str:
    """Return in a few words why a connection of Dask's failed, of the innermost cause."""
    cause: BaseException = error.__cause__ or error
    if isinstance(cause, ssl.SSLError):
        return "certificates of different authorities"
    if isinstance(cause, TimeoutError):
        return "no answer"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower()
    return (str(cause).splitlines() or [type(cause).__name__])[0][:200]


def _nameless(text: str) -> str:
    file = os.memfd_create("pem", os.MFD_CLOEXEC)
    os.write(file, text.encode())
    return f"/proc/{os.getpid()}/fd/{file}"
