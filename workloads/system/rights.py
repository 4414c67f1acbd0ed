# SPDX-License-Identifier: BSD-2-Clause
"""Run a block with a user's rights: root's work on names that the user may write or replace."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from workloads.system.owner import Owner


@contextmanager
def as_user(user: Owner) -> Iterator[None]:
    """Run the block with this user's rights (effective ids and groups), if the process is root's.

    A name that is replaced by a link meanwhile then leads only to what the user can reach anyway.
    """
    with as_ids(user.uid, user.gid, groups_of(user)):
        yield


def groups_of(user: Owner) -> Sequence[int]:
    """Return the groups that a user is in."""
    return os.getgrouplist(user.name, user.gid)


@contextmanager
def as_ids(uid: int, gid: int, groups: Sequence[int] = ()) -> Iterator[None]:
    """Run the block with these effective ids, if root. Real ids stay: the user cannot signal this process."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    own_groups, own_gid = os.getgroups(), os.getegid()
    os.setgroups(groups)
    try:
        os.setegid(gid)
        os.seteuid(uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(own_gid)
        os.setgroups(own_groups)
