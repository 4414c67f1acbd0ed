-- SPDX-License-Identifier: BSD-2-Clause
-- What did the application read and write in each second, and what the disk?
-- Columns: second, from the workload's start; app_read_bytes and app_written_bytes, of calls on the file system under
-- test, in time bins whose middle is in that second; disk_read_bytes and disk_written_bytes, of requests completed in
-- it. The difference is the page cache, metadata and the journal. Seconds in which nothing moved have no row.
-- Change: * 10 and / 10 for tenths of a second. Below a volume bytes of several devices pass here: add dev.
-- WINDOW=1.2-3.4 counts calls of time bins that begin in it, and requests completed in it.
WITH moved AS (
    SELECT
        run,
        CAST(floor(seconds(run, bin_ns + length_ns // 2)) AS BIGINT) AS second,
        if(call = 'read', bytes, 0) AS app_read,
        if(call = 'write', bytes, 0) AS app_written,
        0 AS disk_read,
        0 AS disk_written
    FROM call
    WHERE target = 'target' AND in_window(run, bin_ns)
    UNION ALL
    SELECT
        run,
        CAST(floor(seconds(run, complete_ns)) AS BIGINT),
        0,
        0,
        if(op = 'read', bytes, 0),
        if(op = 'write', bytes, 0)
    FROM block
    WHERE complete_ns IS NOT NULL AND in_window(run, complete_ns)
)
SELECT
    run, second,
    sum(app_read) AS app_read_bytes,
    sum(app_written) AS app_written_bytes,
    sum(disk_read) AS disk_read_bytes,
    sum(disk_written) AS disk_written_bytes
FROM moved
GROUP BY run, second
HAVING app_read_bytes + app_written_bytes + disk_read_bytes + disk_written_bytes > 0
ORDER BY run, second;
