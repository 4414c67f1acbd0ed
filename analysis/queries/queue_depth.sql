-- SPDX-License-Identifier: BSD-2-Clause
-- How many requests were at each device, second by second?
-- Columns: device; second, from the workload's start; requests, those at the device at any time of that second;
-- mean_depth, requests at the device (from issue to completion), averaged over the recorded part of the second;
-- deepest, the most at once. Seconds without a request have no row. Requests without a completion do not count.
-- Change: queue_ns instead of issue_ns counts those in the block layer, too. WINDOW=1.2-3.4 chooses whole seconds.
WITH requests AS (
    SELECT run, dev, seconds(run, issue_ns) AS from_s, seconds(run, complete_ns) AS until_s
    FROM block
    WHERE complete_ns IS NOT NULL
),
parts AS (
    SELECT *, unnest(range(CAST(floor(from_s) AS BIGINT), CAST(floor(until_s) AS BIGINT) + 1)) AS second
    FROM requests
),
steps AS (
    SELECT run, dev, from_s AS at_s, 1 AS step FROM requests
    UNION ALL
    SELECT run, dev, until_s, -1 FROM requests
),
depths AS (
    SELECT
        run, dev, at_s,
        sum(step) OVER (PARTITION BY run, dev ORDER BY at_s, step ROWS UNBOUNDED PRECEDING) AS depth
    FROM steps
),
-- the depth that a second begins with may be its deepest
begins AS (
    SELECT parts.run, parts.dev, second, count(*) FILTER (from_s < second AND until_s > second) AS depth
    FROM parts
    GROUP BY ALL
),
deepest AS (
    SELECT run, dev, second, max(depth) AS deepest
    FROM (
        SELECT run, dev, floor(at_s) AS second, depth FROM depths
        UNION ALL
        SELECT run, dev, second, depth FROM begins
    )
    GROUP BY ALL
)
SELECT
    parts.run,
    device(parts.dev) AS device,
    parts.second,
    count(*) AS requests,
    sum(least(until_s, parts.second + 1) - greatest(from_s, parts.second)) / (
        least(parts.second + 1, seconds(parts.run, any_value(record_end_ns)))
        - greatest(parts.second, seconds(parts.run, any_value(record_start_ns)))
    ) AS mean_depth,
    any_value(deepest) AS deepest
FROM parts
JOIN runs ON runs.run = parts.run
JOIN deepest ON deepest.run = parts.run AND deepest.dev = parts.dev AND deepest.second = parts.second
WHERE in_window(parts.run, work_start_ns + parts.second * 1000000000)
GROUP BY parts.run, parts.dev, parts.second
ORDER BY parts.run, parts.dev, parts.second;
