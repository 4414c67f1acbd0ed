-- SPDX-License-Identifier: BSD-2-Clause
-- What was at the disk during the ten longest lock waits of the workload?
-- Columns: until_s, seconds from the workload's start to the end of the time bin in which the wait ended; lock;
-- waited_ms; holder and holder_state when a wait of this row began; requests that were at a device at any time from
-- waited_ms before the bin to its end (a wait is known to a bin): reads, writes, flushes; their bytes; longest_ms, the
-- longest of them from issue to completion.
-- Change: LIMIT for more; leave out in_workload for all tasks. WINDOW=1.2-3.4 chooses bins that begin in it.
WITH waits AS (
    SELECT
        row_number() OVER () AS wait,
        lock_wait.run,
        bin_ns - max_ns AS from_ns,
        bin_ns + if(length_ns > 0, length_ns, 100000000) AS until_ns,
        max_ns, lock_id, holder_comm, holder_state
    FROM lock_wait
    WHERE in_workload AND in_window(lock_wait.run, bin_ns)
    ORDER BY max_ns DESC, bin_ns, lock_id, stack_id
    LIMIT 10
)
SELECT
    waits.run,
    seconds(waits.run, until_ns) AS until_s,
    any_value(nullif(lock.name, '')) AS lock,
    max_ns / 1e6 AS waited_ms,
    nullif(holder_comm, '') AS holder,
    holder_state,
    count(block.op) AS requests,
    count(*) FILTER (op = 'read') AS reads,
    count(*) FILTER (op IN ('write', 'write_zeroes')) AS writes,
    count(*) FILTER (op = 'flush') AS flushes,
    coalesce(sum(bytes), 0) AS bytes,
    max(complete_ns - issue_ns) / 1e6 AS longest_ms
FROM waits
LEFT JOIN lock ON lock.run = waits.run AND lock.lock_id = waits.lock_id
LEFT JOIN block
    ON block.run = waits.run AND issue_ns < until_ns AND coalesce(complete_ns, issue_ns) >= from_ns
GROUP BY wait, waits.run, until_ns, max_ns, holder_comm, holder_state
ORDER BY waited_ms DESC, until_s, wait;
