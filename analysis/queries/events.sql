-- SPDX-License-Identifier: BSD-2-Clause
-- What did the file system, writeback and memory reclaim do in the background, how often and how long?
-- Columns: kind, why and call, that of the asking thread if it is the workload's (docs/TABLES.md, event); events;
-- total_ms and longest_ms; pages and bytes, summed, where the kind has them.
-- Change: add dev or comm to the columns; the table event_kind says which kinds this kernel can show.
-- WINDOW=1.2-3.4 counts events that began in it.
SELECT
    run, kind, why,
    asker_call AS call,
    count(*) AS events,
    sum(end_ns - start_ns) / 1e6 AS total_ms,
    max(end_ns - start_ns) / 1e6 AS longest_ms,
    sum(pages) AS pages,
    sum(bytes) AS bytes
FROM event
WHERE in_window(run, start_ns)
GROUP BY run, kind, why, call
ORDER BY run, total_ms DESC, events DESC, kind, why, call;
