-- SPDX-License-Identifier: BSD-2-Clause
-- Who wrote to the disk, and why?
-- Columns: why, what the requests were sent for (a call, an event with its reason, a kernel thread's work); sent_by,
-- the thread that submitted them; class; requests; bytes; waited_bytes, of requests that the workload waited for;
-- share_pct, of all bytes written by the run.
-- Change: op = 'read' asks who read; leave out class or sent_by for fewer rows. WINDOW=1.2-3.4 counts requests
-- issued in it.
SELECT
    run, why,
    comm AS sent_by,
    class,
    count(*) AS requests,
    sum(bytes) AS bytes,
    coalesce(sum(bytes) FILTER (waited != 'no'), 0) AS waited_bytes,
    100.0 * sum(bytes) / sum(sum(bytes)) OVER (PARTITION BY run) AS share_pct
FROM block
WHERE op IN ('write', 'write_zeroes') AND in_window(run, issue_ns)
GROUP BY run, why, sent_by, class
ORDER BY run, bytes DESC, why, sent_by, class;
