-- SPDX-License-Identifier: BSD-2-Clause
-- How many seeks a second did each device make?
-- A seek: a read or write that starts more than 128 sectors from the end of the one before, in the order of issue.
-- Columns: device; second, from the workload's start; requests, reads and writes issued in that second; seeks of
-- these; seeks_per_s, over the part of the second that was recorded.
-- Change: 128 for another distance; AND class = 'data' in the last WHERE. WINDOW=1.2-3.4 counts requests issued in it.
WITH moves AS (
    SELECT
        run, dev, issue_ns, sector,
        lag(sector + (bytes + 511) // 512) OVER (PARTITION BY run, dev ORDER BY issue_ns, complete_ns) AS end_before
    FROM block
    WHERE op IN ('read', 'write')
)
SELECT
    moves.run,
    device(dev) AS device,
    CAST(floor(seconds(moves.run, issue_ns)) AS BIGINT) AS second,
    count(*) AS requests,
    count(*) FILTER (abs(sector - end_before) > 128) AS seeks,
    seeks / (
        least(second + 1, seconds(moves.run, any_value(record_end_ns)))
        - greatest(second, seconds(moves.run, any_value(record_start_ns)))
    ) AS seeks_per_s
FROM moves
JOIN runs ON runs.run = moves.run
WHERE in_window(moves.run, issue_ns)
GROUP BY moves.run, dev, second
ORDER BY moves.run, dev, second;
