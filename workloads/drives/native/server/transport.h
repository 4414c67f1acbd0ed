/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A way for the kernel's requests to come in and for answers to go out. fuse.c is one (a loop device lies on the one
 * file that it serves), ublk.c another. A transport knows nothing of drives, the service nothing of the kernel's protocols.
 *
 * Threads: run() is called once, in its own real-time thread, and receives until the device is gone. It calls
 * service_submit() (service.h) for each read, write and flush, in the order in which the kernel sent them: one thread
 * only, as several would swap neighbours and so lose revolutions. answer() is called from any thread, never for one tag
 * twice; it must neither allocate nor wait for another thread.
 *
 * A tag is an index below `tags`. The transport chooses a free one for each request; it is free again once answer()
 * has been called with it.
 */
#ifndef SEEKMETER_DRIVE_TRANSPORT_H
#define SEEKMETER_DRIVE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "model/drive.h"

#define TRANSPORT_MOST_TAGS 256
#define REQUEST_MOST_BYTES  (1U << 20)

struct service;

struct request {
	uint32_t tag;
	enum drive_op op; /* read, write, flush */
	bool fua;
	uint64_t sector;    /* the host's, 512 B */
	uint32_t sectors;   /* of a flush: 0; at most REQUEST_MOST_BYTES */
	const void *data;   /* of a write: its bytes, in one piece; service_submit() copies them */
	int64_t arrival_ns; /* CLOCK_MONOTONIC: when the receiving thread had it */
};

struct transport {
	const char *name; /* "fuse", "ublk" */
	char device
		[16]; /* its name in /dev, once run() runs ("ublkb0"); "": the opener makes one (fuse) */
	uint32_t tags;
	uint64_t sectors; /* of the disk */
	/*
	 * The kernel's way, without waking threads up and without copying data: the host's submission happened so long
	 * before arrival_ns, and the host has the answer so long after answer() began. The wakeups on each way: what one
	 * takes the service measures. It takes all of this off, so that the host sees the drive's own time.
	 */
	int64_t way_in_ns;
	int64_t way_out_ns;
	uint32_t wakes_in;
	uint32_t wakes_out;
	/* Receives and submits until the device is gone (0), or -1 with a line in `error`. */
	int (*run)(struct transport *transport, struct service *service, char error[256]);
	/*
	 * Answers: error is 0 or an errno (EIO, ENOSPC). Of a read without error, data are the sectors asked for, in
	 * `pieces` pieces (at most 258) that are valid during the call.
	 */
	void (*answer)(struct transport *transport, uint32_t tag, int error,
		       const struct iovec *data, int pieces);
	/* NULL, or makes run() return; from the control thread. */
	void (*stop)(struct transport *transport);
};

/* On an opened /dev/fuse that is, or will be, mounted on a regular file. NULL with a line in `error`. */
struct transport *fuse_transport(int fd, uint64_t bytes, char error[256]);

/*
 * A new ublk disk. has_cache: the drive has a write cache, so the kernel sends flushes and FUA. mark: the kernel keeps it
 * with the device, see workloads/system/ublkdev.py. NULL with a line in `error`: the kernel has no ublk, or a too old one.
 */
struct transport *ublk_transport(uint64_t bytes, bool has_cache, uint64_t mark, char error[256]);

#endif
