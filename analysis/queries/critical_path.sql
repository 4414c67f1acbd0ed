-- SPDX-License-Identifier: BSD-2-Clause
-- What did the progress of the workload wait for in the end?
-- Columns: kind, what the end of the chain was at (docs/SCHEMA.md, critical_path.parquet); waited_as, what the
-- workload's own stack said meanwhile; request, operation and class of the request at the end of the chain; pieces;
-- time_s; share_pct, of the path of the run.
-- Change: comm, own_place or file instead of own_cause. WINDOW=1.2-3.4 counts pieces that begin in it.
-- make report RUN=... makes this table anew.
SELECT
    run, kind,
    own_cause AS waited_as,
    request,
    count(*) AS pieces,
    sum(end_ns - start_ns) / 1e9 AS time_s,
    100.0 * sum(end_ns - start_ns) / sum(sum(end_ns - start_ns)) OVER (PARTITION BY run) AS share_pct
FROM critical_path
WHERE in_window(run, start_ns)
GROUP BY run, kind, waited_as, request
ORDER BY run, time_s DESC, kind, waited_as, request;
