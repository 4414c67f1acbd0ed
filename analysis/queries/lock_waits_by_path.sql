-- SPDX-License-Identifier: BSD-2-Clause
-- Which call paths of the workload waited for which locks, and how long?
-- Columns: lock, its name (empty: not known), kind and mode; waits; slept_ms and spun_ms, summed over the waits;
-- longest_ms, the longest one; call_path, innermost function first (empty: not sampled, see the table lock_wait).
-- Change: leave out in_workload for the waits of all tasks; LIMIT for more. WINDOW=1.2-3.4 counts the waits of the
-- time bins that begin in it.
SELECT
    lock_wait.run,
    nullif(lock.name, '') AS lock,
    lock_wait.kind,
    lock_wait.mode,
    sum(lock_wait.count) AS waits,
    sum(sleep_ns) / 1e6 AS slept_ms,
    sum(spin_ns) / 1e6 AS spun_ms,
    max(max_ns) / 1e6 AS longest_ms,
    call_path(stack.frames) AS call_path
FROM lock_wait
LEFT JOIN lock ON lock.run = lock_wait.run AND lock.lock_id = lock_wait.lock_id
LEFT JOIN stack ON stack.run = lock_wait.run AND stack.stack_id = lock_wait.stack_id
WHERE in_workload AND in_window(lock_wait.run, bin_ns)
GROUP BY ALL
ORDER BY slept_ms + spun_ms DESC, lock, call_path
LIMIT 20;
