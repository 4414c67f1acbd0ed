# SPDX-License-Identifier: BSD-2-Clause
"""How much of a wait is explained by what: each sleep belongs to one kind of finding.

The most specific cause wins, in this order: a frozen file system; a commit that another process asked for,
or a journal that such commits filled; a synchronous write, or a call that syncs, of the workload's own; a
lock, while its holder waits for room in the journal. What none of these explains is the cause's own. A sync
that waits for another's commit and then for its own is the other's fault only until the first is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from analysis.causes.classify import function_name
from analysis.measures.waits.commits import Whose
from analysis.tables.store import I64, Categorical

FROZEN, FOREIGN, SYNC_WRITE, SYNC_CALL, PLAIN = "frozen", "foreign_commit", "sync_write", "commit", ""
FOR_SPACE = "log_space"
EXPLAINED = (PLAIN, FROZEN, FOREIGN, SYNC_WRITE, SYNC_CALL, FOR_SPACE)
SYNC_CALLS = ("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range")
WRITE_CALLS = (
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "io_submit",
    "io_uring_enter",
    "sendfile64",
    "splice",
)
# what a synchronous write calls when its bytes are in memory
SYNCS = ("vfs_fsync_range", "generic_write_sync", "*_sync_file", "*_file_fsync", "*_fsync", "nilfs_sync_file")
WRITERS = ("vfs_write", "vfs_writev", "*_write_iter", "*_buffered_write", "*_buffered_write_iter")
LOG_SPACE = "log_space"
OWN_CAUSES = ("throttle", "reclaim")  # whatever call they are in
NEXT_NS = 200_000  # a call's next sleep begins at most so long after one


def kind_of(frames: Sequence[str], cause: str, call: str) -> str:
    """The kind by call path alone."""
    names = [function_name(frame) for frame in frames]
    if cause == FROZEN:
        return FROZEN
    if cause in OWN_CAUSES:
        return PLAIN
    if call in SYNC_CALLS:
        return SYNC_CALL
    if call and call not in WRITE_CALLS:
        return PLAIN
    # a deep call path is recorded without its outermost functions
    if not any(fnmatchcase(name, one) for name in names for one in SYNCS):
        return PLAIN
    is_write = bool(call) or any(fnmatchcase(name, one) for name in names for one in WRITERS)
    return SYNC_WRITE if is_write else SYNC_CALL


def explain(
    stack_id: I64,
    stacks: Mapping[int, Sequence[str]],
    cause: Categorical,
    call: Categorical,
    whose: Categorical,
    goes_on: np.ndarray,
    for_space: np.ndarray,
    beside: np.ndarray,
    others_fill: bool,
) -> Categorical:
    """The kind of each row.

    goes_on: the call's next sleep waits for the same. others_fill: see Commits.
    beside: in I/O of its own, while the disk commits what another process asked for.
    for_space: a lock, while a thread of the workload waits for room in the journal.
    """
    key = (stack_id + 2) * len(cause.labels) + cause.codes
    keys, first, of_row = np.unique(key, return_index=True, return_inverse=True)
    kinds = [
        kind_of(
            stacks.get(int(stack_id[row])) or (),
            cause.labels[cause.codes[row]],
            call.labels[call.codes[row]],
        )
        for row in first.tolist()
    ]
    code_of = np.array([EXPLAINED.index(kind) for kind in kinds] or [0], dtype=np.int32)
    codes = code_of[of_row] if keys.size else np.zeros(0, dtype=np.int32)
    syncs = np.isin(codes, [EXPLAINED.index(SYNC_WRITE), EXPLAINED.index(SYNC_CALL)])
    foreign = whose.is_(Whose.OTHERS) & (codes != EXPLAINED.index(FROZEN)) & (~syncs | goes_on)
    foreign |= syncs & beside
    foreign &= ~cause.is_in(OWN_CAUSES)
    codes[for_space & (codes == EXPLAINED.index(PLAIN))] = EXPLAINED.index(FOR_SPACE)
    if others_fill:
        foreign |= cause.is_(LOG_SPACE) & (codes == EXPLAINED.index(PLAIN))
        foreign |= codes == EXPLAINED.index(FOR_SPACE)
    codes[foreign] = EXPLAINED.index(FOREIGN)
    return Categorical(codes, EXPLAINED)


def goes_on(root: I64, sleep: I64, begin_ns: I64, end_ns: I64, stack_id: I64) -> np.ndarray:
    """Whether the same thread's next sleep follows at once, with the same call path. Sleeps have rows."""
    found = np.zeros(root.size, dtype=np.bool_)
    if root.size < 2:
        return found
    order = np.lexsort((begin_ns, root))
    is_last = np.concatenate((sleep[order[1:]] != sleep[order[:-1]], [True]))  # of its sleep's rows
    last, number = order[is_last], np.cumsum(np.concatenate(([0], is_last[:-1])))
    first = order[np.concatenate(([True], is_last[:-1]))]
    follows = (
        (root[last[:-1]] == root[first[1:]])
        & (stack_id[last[:-1]] == stack_id[first[1:]])
        & (begin_ns[first[1:]] - end_ns[last[:-1]] <= NEXT_NS)
    )
    found[order] = np.append(follows, False)[number]
    return found
