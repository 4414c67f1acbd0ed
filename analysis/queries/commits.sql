-- SPDX-License-Identifier: BSD-2-Clause
-- When did the file system commit its journal or log, why, for whom, and how long did it take?
-- Columns: from_s, seconds from the workload's start; kind; length_ms; why, and asked_by, the thread and its call
-- that asked; handles (jbd2) and bytes written; of jbd2_commit: locked_ms, waiting for open
-- handles; flushing_ms, sending ordered data; logging_ms, until the commit record was on the disk.
-- Change: kind in the WHERE (make query SQL='SELECT DISTINCT kind FROM event' lists what there is); ORDER BY
-- length_ms DESC for the longest. WINDOW=1.2-3.4 shows those that began in it.
SELECT
    event.run,
    seconds(event.run, event.start_ns) AS from_s,
    kind,
    (event.end_ns - event.start_ns) / 1e6 AS length_ms,
    why,
    thread.comm AS asked_by,
    asker_call AS call,
    count AS handles,
    bytes,
    CASE WHEN kind = 'jbd2_commit' THEN p3_ns / 1e6 END AS locked_ms,
    CASE WHEN kind = 'jbd2_commit' THEN p4_ns / 1e6 END AS flushing_ms,
    CASE WHEN kind = 'jbd2_commit' THEN p5_ns / 1e6 END AS logging_ms
FROM event
-- a thread number may be used again: the thread that lived when the event began
LEFT JOIN thread
    ON thread.run = event.run AND thread.tid = asker_tid AND thread.start_ns <= event.end_ns
    AND (thread.end_ns IS NULL OR thread.end_ns >= event.start_ns)
WHERE kind IN ('jbd2_commit', 'jbd2_fast_commit', 'xfs_log_force', 'btrfs_commit')
    AND in_window(event.run, event.start_ns)
ORDER BY event.run, event.start_ns, event_id;
