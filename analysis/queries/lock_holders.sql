-- SPDX-License-Identifier: BSD-2-Clause
-- Who held the locks that the workload waited for, and what did the holders do meanwhile?
-- Columns: lock; holder, the thread that held it when the wait began (empty: not known), and its state then; waits;
-- waited_ms, spinning and sleeping together; holds_at, the innermost functions of the holder's call path.
-- Change: holder_lock and root_lock of the table lock_wait lead on along a chain of holders. WINDOW=1.2-3.4 counts
-- the waits of the time bins that begin in it.
SELECT
    lock_wait.run,
    nullif(lock.name, '') AS lock,
    nullif(holder_comm, '') AS holder,
    holder_state,
    sum(lock_wait.count) AS waits,
    sum(spin_ns + sleep_ns) / 1e6 AS waited_ms,
    call_path(stack.frames[1:4]) AS holds_at
FROM lock_wait
LEFT JOIN lock ON lock.run = lock_wait.run AND lock.lock_id = lock_wait.lock_id
LEFT JOIN stack ON stack.run = lock_wait.run AND stack.stack_id = holder_stack_id
WHERE in_workload AND in_window(lock_wait.run, bin_ns)
GROUP BY ALL
ORDER BY waited_ms DESC, lock, holder, holds_at
LIMIT 20;
