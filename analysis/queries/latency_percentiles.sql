-- SPDX-License-Identifier: BSD-2-Clause
-- How long did requests take, by operation and class?
-- Columns: requests; not_seen, those of which no completion was recorded, in none of the next; q2c_p50_ms, q2c_p90_ms,
-- q2c_p99_ms and q2c_most_ms, from queue to completion: half, 90 %, 99 % and all of the requests took at most this;
-- d2c_p50_ms, d2c_p99_ms and d2c_most_ms, the same from issue to completion.
-- Change: GROUP BY why, comm or waited instead of class. WINDOW=1.2-3.4 counts requests queued in it.
SELECT
    run, op, class,
    count(*) AS requests,
    count(*) FILTER (complete_ns IS NULL) AS not_seen,
    quantile_disc(complete_ns - queue_ns, 0.5) / 1e6 AS q2c_p50_ms,
    quantile_disc(complete_ns - queue_ns, 0.9) / 1e6 AS q2c_p90_ms,
    quantile_disc(complete_ns - queue_ns, 0.99) / 1e6 AS q2c_p99_ms,
    max(complete_ns - queue_ns) / 1e6 AS q2c_most_ms,
    quantile_disc(complete_ns - issue_ns, 0.5) / 1e6 AS d2c_p50_ms,
    quantile_disc(complete_ns - issue_ns, 0.99) / 1e6 AS d2c_p99_ms,
    max(complete_ns - issue_ns) / 1e6 AS d2c_most_ms
FROM block
WHERE in_window(run, queue_ns)
GROUP BY ALL
ORDER BY run, op, class;
