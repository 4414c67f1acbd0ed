-- SPDX-License-Identifier: BSD-2-Clause
-- How long did each phase of the workload take, and what did the disk do in it?
-- Columns: from_s, seconds from the workload's start; length_s; ops and ops_per_s, as the workload counted them;
-- requests issued in the phase; their bytes_read and bytes_written; flushes among them.
-- Change: JOIN another table by time as block is joined here. WINDOW=1.2-3.4 shows phases that begin in it.
SELECT
    phase.run,
    phase.name AS phase,
    seconds(phase.run, start_ns) AS from_s,
    (end_ns - start_ns) / 1e9 AS length_s,
    ops,
    ops / nullif(length_s, 0) AS ops_per_s,
    count(op) AS requests,
    coalesce(sum(block.bytes) FILTER (op = 'read'), 0) AS bytes_read,
    coalesce(sum(block.bytes) FILTER (op = 'write'), 0) AS bytes_written,
    count(*) FILTER (op = 'flush') AS flushes
FROM phase
LEFT JOIN block ON block.run = phase.run AND issue_ns >= start_ns AND issue_ns < end_ns
WHERE in_window(phase.run, start_ns)
GROUP BY phase.run, phase.name, start_ns, end_ns, ops
ORDER BY phase.run, start_ns, end_ns, phase;
