-- SPDX-License-Identifier: BSD-2-Clause
-- Who woke the threads of the workload, and what made them do it?
-- Columns: woken, the thread's name; woken_by, the thread on the waking CPU (in an interrupt: the one that it
-- interrupted; empty: not logged); context and cause of the wake-up (docs/TABLES.md, wake); wakes; not_sure, of these
-- with a cause that may be another.
-- Change: wakee_role = 'kernel' for what woke kernel threads. WINDOW=1.2-3.4 counts wake-ups in it.
SELECT
    wake.run,
    wakee.comm AS woken,
    waker.comm AS woken_by,
    context, cause,
    count(*) AS wakes,
    count(*) FILTER (NOT sure AND cause != 'none') AS not_sure
FROM wake
JOIN thread AS wakee ON wakee.run = wake.run AND wakee.thread = wake.wakee
LEFT JOIN thread AS waker ON waker.run = wake.run AND waker.thread = wake.waker AND wake.waker != 0
WHERE wakee_role = 'workload' AND in_window(wake.run, t_ns)
GROUP BY wake.run, woken, woken_by, context, cause
ORDER BY wake.run, wakes DESC, woken, woken_by, context, cause;
