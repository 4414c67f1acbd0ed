// SPDX-License-Identifier: BSD-2-Clause
/*
 * drive-cost: what requests cost on a disk: the drive's model in virtual time, below a host's elevator.
 *
 *   build/drive-cost --params=FILE [--requests=FILE] [--rows=FILE] [--text] [--closed=N [--gaps]] [--elevator=N]
 *                    [--merge=SECTORS] [--seed=N]
 *
 *   --params    the drive, flat text as params.h describes it
 *   --requests  the stream; without it standard input
 *   --rows      one row a service goes there; without it only the totals are printed
 *   --text      requests and rows are lines instead of records
 *   --closed    at most N requests are in the host at a time: each next one comes when one ends. Without it a request
 *               comes at its recorded arrival
 *   --gaps      with --closed: but not sooner after the one before it than recorded
 *   --elevator  requests that the elevator holds besides those in the drive (nr_requests, up to 4096; 0: none, the
 *               drive gets them in order): mq-deadline with its defaults: reads and writes sorted by position, 16 a batch,
 *               reads first, but writes after 2 batches of reads, expiry after 0.5 s and 5 s. The drive gets as many at a time
 *               as its queue is deep. A flush passes by the elevator. A request that comes while all are taken waits
 *   --merge     the elevator merges requests that follow each other, up to this many sectors
 *   --seed      phase of the platter
 *
 * A request: arrival_ns op sector sectors fua. As a line: "1000 r 2048 8 0": op r, w or f (flush: sector, sectors 0). As a
 * record of 24 bytes, little endian, numpy: [("arrival_ns", "<i8"), ("sector", "<u8"), ("sectors", "<u4"), ("op", "u1"),
 * ("fua", "u1"), ("zero", "<u2")], op as in drive.h: 0 read, 1 write, 2 flush. Sorted by arrival: one that is earlier than
 * the one before it comes with it. One of more than 65536 sectors, or beyond the disk's end, is an error.
 *
 * A row, in order of end: of 104 bytes, numpy: [("request", "<i8"), ("issue_ns", "<i8"), ("arrival_ns", "<i8"),
 * ("start_ns", "<i8"), ("end_ns", "<i8"), ("overhead_ns", "<i8"), ("seek_ns", "<i8"), ("rotation_ns", "<i8"),
 * ("transfer_ns", "<i8"), ("wait_ns", "<i8"), ("sector", "<u8"), ("sectors", "<u4"), ("cylinder", "<u4"), ("queued", "<u4"),
 * ("op", "u1"), ("how", "u1"), ("fua", "u1"), ("by_head", "u1")]; as a line the same in that order. request: its number in
 * the stream, from 0 (of a destage: -1; of merged ones: a row each, the pieces in the first one's, the others' 0 but for
 * their times); issue_ns: it came to the host; arrival_ns: to the drive; op 3: destage; how 0 media, 1 cache,
 * 2 read-ahead; by_head: 1 if it kept the head busy.
 *
 * Standard output: one JSON line of totals: requests, reads, writes, flushes, destages (counts); first_ns (issue of the
 * first request), end_ns (of the last one); response_ns (sum of end - issue); drive_ns (sum of end - arrival at the drive);
 * seek_ns, rotation_ns, transfer_ns, overhead_ns: of the head's work; head_idle_ns: (end - first) without them; bus_ns:
 * what the electronics took beside the head; flush_wait_ns; seeks (head's works with a movement before them); read_hits,
 * write_hits (served without the platter); dirty_bytes (in the cache at the end).
 *
 * Exit status: 0, 1: a file failed, 2: an option, the params or a request are wrong, with one line on standard error.
 */
int main(void)
{
	return 1;
}
