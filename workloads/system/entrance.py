# SPDX-License-Identifier: BSD-2-Clause
"""Access to a directory of root's: search permission for root and one user, nobody else.

The session's directory has the mount point and the workload's sockets. Any user with search permission could
make it the working directory, which keeps the file system mounted and its disk in use.
"""

import errno
import os
import struct
from pathlib import Path

# struct posix_acl_xattr_header and _entry (include/uapi/linux/posix_acl_xattr.h), tags and permissions of
# include/uapi/linux/posix_acl.h: all little-endian.
_HEADER, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
_VERSION, _NO_ID = 2, 0xFFFFFFFF
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_PASS, _ALL = 1, 7


def let_in(directory: Path, uid: int, gid: int) -> None:
    """Give one user search permission for a directory of root's; everybody gets it for the parent.

    Sets an access control list. On a file system without these, the user's group gets the permission too.
    """
    os.chmod(directory.parent, 0o711)
    if uid == os.geteuid():
        return
    entries = ((_OWNER, _ALL, _NO_ID), (_USER, _PASS, uid), (_GROUP, 0, _NO_ID), (_MASK, _PASS, _NO_ID))
    rules = [_ENTRY.pack(*entry) for entry in (*entries, (_OTHERS, 0, _NO_ID))]
    try:
        os.setxattr(directory, "system.posix_acl_access", _HEADER.pack(_VERSION) + b"".join(rules))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOSYS):
            raise
        os.chown(directory, -1, gid)
        os.chmod(directory, 0o710)
