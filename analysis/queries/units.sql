-- SPDX-License-Identifier: BSD-2-Clause
-- Which service, container, pod or virtual machine read and wrote how much, and how long did its requests take?
-- Columns: kind and unit, of the cgroup that the request is for; pod; requests; read_bytes; written_bytes;
-- written_back_bytes, of these, sent by kernel threads for it; p50_ms and p99_ms, queue to completion. A unit "not
-- known" has no row in the table cgroup: it began and ended between two looks, or kernels name no owner.
-- Change: GROUP BY path instead of name tells cgroups of one unit apart. WINDOW=1.2-3.4 counts requests issued in it.
SELECT
    block.run,
    coalesce(cgroup.kind, 'unknown') AS kind,
    coalesce(cgroup.name, 'not known') AS unit,
    coalesce(cgroup.pod, '') AS pod,
    count(*) AS requests,
    coalesce(sum(bytes) FILTER (op = 'read'), 0) AS read_bytes,
    coalesce(sum(bytes) FILTER (op = 'write'), 0) AS written_bytes,
    coalesce(sum(bytes) FILTER (op = 'write' AND submitter = 'kernel_thread'), 0) AS written_back_bytes,
    quantile_disc(complete_ns - queue_ns, 0.5) / 1e6 AS p50_ms,
    quantile_disc(complete_ns - queue_ns, 0.99) / 1e6 AS p99_ms
FROM block LEFT JOIN cgroup ON block.run = cgroup.run AND block.cgroup = cgroup.cgroup
WHERE in_window(block.run, issue_ns)
GROUP BY ALL
ORDER BY run, read_bytes + written_bytes DESC, kind, unit, pod;
