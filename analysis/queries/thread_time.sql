-- SPDX-License-Identifier: BSD-2-Clause
-- Where did the threads' time go, by state and cause?
-- Columns: role, whose threads; state and cause (docs/TABLES.md, thread_time); threads; time_s, summed over them;
-- intervals that ended; longest_ms, the longest of these; share_pct, of the role's time.
-- Change: role = 'filesystem' or 'disk' for what served the workload; GROUP BY comm, place or call as well.
-- WINDOW=1.2-3.4 counts the rows of time bins that begin in it.
SELECT
    run, role, state, cause,
    count(DISTINCT thread) AS threads,
    sum(ns) / 1e9 AS time_s,
    sum(count) AS intervals,
    max(max_ns) / 1e6 AS longest_ms,
    100.0 * sum(ns) / sum(sum(ns)) OVER (PARTITION BY run, role) AS share_pct
FROM thread_time
WHERE role = 'workload' AND in_window(run, bin_ns)
GROUP BY run, role, state, cause
ORDER BY run, role, time_s DESC, state, cause;
