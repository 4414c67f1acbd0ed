-- SPDX-License-Identifier: BSD-2-Clause
-- Which were the slowest ten requests, and which threads did their ends wake?
-- Columns: from_s, seconds from the workload's start to the request's queue time; q2c_ms, from queue to completion,
-- of that q2d_ms in the block layer and d2c_ms at the device; why and sent_by, what it was sent for and by which
-- thread; waited, whether the workload waited for it (docs/TABLES.md); woken, the threads that were woken by its
-- completion, within 1 ms of it. All flushes have sector 0: of two that end within 1 ms the wakers are not told apart.
-- Change: LIMIT for more; add AND op = 'read', or any column of the table block. WINDOW=1.2-3.4 chooses a time.
WITH slowest AS (
    SELECT *, complete_ns - queue_ns AS q2c_ns
    FROM block
    WHERE complete_ns IS NOT NULL AND in_window(run, queue_ns)
    ORDER BY q2c_ns DESC, issue_ns, sector
    LIMIT 10
),
woken AS (
    SELECT wake.run, wake.t_ns, wake.dev, wake.sector, thread.comm
    FROM wake
    JOIN thread ON thread.run = wake.run AND thread.thread = wake.wakee
    WHERE wake.cause = 'request'
)
SELECT
    slowest.run,
    seconds(slowest.run, queue_ns) AS from_s,
    q2c_ns / 1e6 AS q2c_ms,
    (issue_ns - queue_ns) / 1e6 AS q2d_ms,
    (complete_ns - issue_ns) / 1e6 AS d2c_ms,
    op, class,
    slowest.sector,
    bytes, why,
    slowest.comm AS sent_by,
    waited,
    string_agg(DISTINCT woken.comm, ', ' ORDER BY woken.comm) AS woken
FROM slowest
LEFT JOIN woken
    ON woken.run = slowest.run AND woken.dev = slowest.dev AND woken.sector = slowest.sector
    AND woken.t_ns BETWEEN complete_ns AND complete_ns + 1000000
GROUP BY ALL
ORDER BY q2c_ms DESC, from_s, slowest.sector;
