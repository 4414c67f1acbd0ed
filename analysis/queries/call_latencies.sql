-- SPDX-License-Identifier: BSD-2-Clause
-- How long did each kind of file-system call take?
-- Columns: calls that returned (or page faults that ended); failed, of these; bytes moved; total_s, summed; mean_us;
-- p50_us, p90_us, p99_us: that share of the calls took less than this, or up to an eighth more; most_us, the longest.
-- Change: target = 'target' is the file system under test; without that line calls elsewhere count, too.
-- WINDOW=1.2-3.4 counts the calls of time bins that begin in it.
WITH buckets AS (
    SELECT run, call, bucket, sum(calls) AS calls
    FROM (
        SELECT run, call, unnest(range(256)) AS bucket, unnest(CAST(hist AS UINTEGER[])) AS calls
        FROM call
        WHERE target = 'target' AND in_window(run, bin_ns)
    )
    GROUP BY run, call, bucket
),
shares AS (
    SELECT
        run, call, bucket,
        sum(calls) OVER (PARTITION BY run, call ORDER BY bucket) / sum(calls) OVER (PARTITION BY run, call) AS share
    FROM buckets
),
percentiles AS (
    SELECT
        run, call,
        bucket_ns(min(bucket) FILTER (share >= 0.5)) / 1e3 AS p50_us,
        bucket_ns(min(bucket) FILTER (share >= 0.9)) / 1e3 AS p90_us,
        bucket_ns(min(bucket) FILTER (share >= 0.99)) / 1e3 AS p99_us
    FROM shares
    GROUP BY run, call
)
SELECT
    call.run, call.call,
    sum(count) AS calls,
    sum(errors) AS failed,
    sum(bytes) AS bytes,
    sum(total_ns) / 1e9 AS total_s,
    sum(total_ns) / sum(count) / 1e3 AS mean_us,
    any_value(p50_us) AS p50_us,
    any_value(p90_us) AS p90_us,
    any_value(p99_us) AS p99_us,
    max(max_ns) / 1e3 AS most_us
FROM call
JOIN percentiles ON percentiles.run = call.run AND percentiles.call = call.call
WHERE target = 'target' AND in_window(call.run, bin_ns)
GROUP BY call.run, call.call
ORDER BY call.run, total_s DESC, call.call;
