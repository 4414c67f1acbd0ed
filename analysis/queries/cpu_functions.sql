-- SPDX-License-Identifier: BSD-2-Clause
-- Which functions was the workload in while it had a CPU? (needs COLLECT="block perf")
-- Columns: mode, user or kernel; function, the innermost one of the samples; samples; cpu_ms that they stand for;
-- share_pct, of the workload's CPU time.
-- Change: frames[2] for its caller; leave out in_workload for the whole machine. WINDOW=1.2-3.4 counts samples in it.
SELECT
    cpu_sample.run, mode,
    frames[1] AS function,
    count(*) AS samples,
    sum(period_ns) / 1e6 AS cpu_ms,
    100.0 * sum(period_ns) / sum(sum(period_ns)) OVER (PARTITION BY cpu_sample.run) AS share_pct
FROM cpu_sample
LEFT JOIN cpu_stack ON cpu_stack.run = cpu_sample.run AND cpu_stack.stack_id = cpu_sample.stack_id
WHERE in_workload AND in_window(cpu_sample.run, t_ns)
GROUP BY cpu_sample.run, mode, function
ORDER BY cpu_sample.run, samples DESC, mode, function
LIMIT 30;
