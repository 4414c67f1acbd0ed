-- SPDX-License-Identifier: BSD-2-Clause
-- How large were the requests, and how many were merged?
-- Columns: op; class; at_least_bytes, the largest power of two up to the size; requests; bytes; merges, bios merged
-- into these beyond the first; share_pct, of the requests of this operation.
-- Change: leave out class for fewer rows. WINDOW=1.2-3.4 counts requests issued in it.
SELECT
    run, op, class,
    CAST(2 ** floor(log2(bytes)) AS BIGINT) AS at_least_bytes,
    count(*) AS requests,
    sum(bytes) AS bytes,
    sum(merges) AS merges,
    100.0 * count(*) / sum(count(*)) OVER (PARTITION BY run, op) AS share_pct
FROM block
WHERE bytes > 0 AND in_window(run, issue_ns)
GROUP BY run, op, class, at_least_bytes
ORDER BY run, op, class, at_least_bytes;
