-- SPDX-License-Identifier: BSD-2-Clause
-- Which files did the bytes of the requests belong to, by class and operation?
-- Columns: path from the mount point, empty of requests without an inode (journal, flushes) and of files that were
-- gone at the end; ino, the inode; requests; bytes; waited_requests, those that the workload waited for.
-- Change: LIMIT for more; GROUP BY less for sums; WINDOW=1.2-3.4 counts requests issued in it.
WITH names AS (
    SELECT run, dev, ino, min(path) AS path -- one of several hard links
    FROM path
    GROUP BY run, dev, ino
)
SELECT
    block.run, names.path, block.ino, class, op,
    count(*) AS requests,
    sum(bytes) AS bytes,
    count(*) FILTER (waited != 'no') AS waited_requests
FROM block
LEFT JOIN names ON names.run = block.run AND names.dev = device(block.sb_dev) AND names.ino = block.ino
WHERE in_window(block.run, issue_ns)
GROUP BY ALL
ORDER BY bytes DESC, requests DESC, path, class, op
LIMIT 40;
