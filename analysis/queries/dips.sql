-- SPDX-License-Identifier: BSD-2-Clause
-- When did the application move less than half of its usual bytes, and what ran beside that?
-- The report's dips follow a stricter rule (docs/READING.md); this is a first look, at tenths of a second.
-- Columns: from_s, seconds from the workload's start; app_bytes, moved by calls on the file system under test, in time
-- bins (of about a tenth, too) whose middle is in that tenth; usual_bytes, the median of all tenths of the workload's
-- time; disk_bytes, of requests completed in it; commits and throttled, events of commits and of pauses of writing
-- threads under way in it.
-- Change: 0.5 for another share of the usual. WINDOW=1.2-3.4 shows tenths that begin in it.
WITH tenths AS (
    SELECT run, unnest(range(CAST(ceil((work_end_ns - work_start_ns) / 1e8) AS BIGINT))) AS tenth
    FROM runs
),
app AS (
    SELECT run, CAST(floor(seconds(run, bin_ns + length_ns // 2) * 10) AS BIGINT) AS tenth, sum(bytes) AS bytes
    FROM call
    WHERE target = 'target'
    GROUP BY ALL
),
disk AS (
    SELECT run, CAST(floor(seconds(run, complete_ns) * 10) AS BIGINT) AS tenth, sum(bytes) AS bytes
    FROM block
    WHERE complete_ns IS NOT NULL
    GROUP BY ALL
),
beside AS (
    SELECT
        run,
        unnest(range(
            CAST(floor(seconds(run, start_ns) * 10) AS BIGINT),
            CAST(floor(seconds(run, end_ns) * 10) AS BIGINT) + 1
        )) AS tenth,
        kind
    FROM event
    WHERE kind IN ('jbd2_commit', 'jbd2_fast_commit', 'xfs_log_force', 'btrfs_commit', 'dirty_throttle')
),
events AS (
    SELECT
        run, tenth,
        count(*) FILTER (kind != 'dirty_throttle') AS commits,
        count(*) FILTER (kind = 'dirty_throttle') AS throttled
    FROM beside
    GROUP BY ALL
),
rows AS (
    SELECT
        tenths.run,
        tenth / 10 AS from_s,
        coalesce(app.bytes, 0) AS app_bytes,
        median(coalesce(app.bytes, 0)) OVER (PARTITION BY tenths.run) AS usual_bytes,
        coalesce(disk.bytes, 0) AS disk_bytes,
        coalesce(commits, 0) AS commits,
        coalesce(throttled, 0) AS throttled,
        work_start_ns + tenth * 100000000 AS start_ns
    FROM tenths
    JOIN runs USING (run)
    LEFT JOIN app USING (run, tenth)
    LEFT JOIN disk USING (run, tenth)
    LEFT JOIN events USING (run, tenth)
)
SELECT run, from_s, app_bytes, usual_bytes, disk_bytes, commits, throttled
FROM rows
WHERE app_bytes < 0.5 * usual_bytes AND in_window(run, start_ns)
ORDER BY run, from_s;
