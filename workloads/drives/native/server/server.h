/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state that service.c, media.c and cut.c share. `lock` covers all of it but what says otherwise. Nothing is
 * allocated once the first request is there.
 */
#ifndef SEEKMETER_DRIVE_SERVER_H
#define SEEKMETER_DRIVE_SERVER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "cut.h"
#include "dirty.h"
#include "lateness.h"
#include "model/drive.h"
#include "pages.h"
#include "record.h"
#include "service.h"
#include "transport.h"

/* Pages that the most bytes of a request can touch. */
#define MOST_PIECES   (REQUEST_MOST_BYTES / PAGE_BYTES + 1)
#define MEDIA_READERS 4

/* A request from its submission to its answer. */
struct slot {
	struct request request;
	struct page_list pages;
	struct iovec pieces[MOST_PIECES]; /* of a read: its data, in the pages */
	uint32_t piece_count;
	bool is_used;
	bool is_with_model;  /* submitted to the model, which has not ended it */
	bool is_done;	     /* the model ended it, or there is an error */
	bool is_read_wanted; /* a reader has it, or will have it */
	bool is_reading; /* a reader is at the file without the lock: dirty pages that leave meanwhile... */
	bool is_stale; /* ...make it read again */
	int error;
	uint64_t gate;	      /* answer once so many pages have left for the media file */
	int64_t due_ns;	      /* by the model; of CLOCK_MONOTONIC */
	int64_t answer_at_ns; /* due, less the way out; 0: at once */
	struct record_row *row;
};

struct service {
	pthread_mutex_t lock;
	struct transport *transport;
	struct model_clock clock;
	struct drive *drive;
	struct pages pages;
	struct dirty dirty;
	struct slot slots[TRANSPORT_MOST_TAGS];
	uint32_t in_flight;
	uint32_t done
		[TRANSPORT_MOST_TAGS]; /* tags that have is_done and no answer yet, oldest first */
	uint32_t done_count;
	pthread_cond_t has_room;
	bool waits_for_room;

	/* The service thread's sleep: others change `wake` and wake it if they have something for it earlier. */
	atomic_uint wake;
	atomic_bool is_asleep;
	int64_t sleeps_until_ns;
	int64_t spin_ns;
	int64_t spun_ns; /* in the window that began at spin_window_ns: spinning is no more than a twentieth of it */
	int64_t spin_window_ns;

	/* Calibrated from the service thread's own sleeps: the median of what waking a thread up takes. */
	atomic_int_least64_t woken_ns;
	double wake_ns;
	/* And from the answers themselves. */
	double answer_ns;      /* of one without data */
	double answer_ns_byte; /* and for each byte */
	uint32_t largest_read; /* of the requests with the model, in bytes */

	/* media.c */
	int media;
	int media_error; /* errno of the first failed write to the media file; later writes get it */
	atomic_uint_least64_t media_left; /* pages of dirty.left that the file has */
	uint32_t to_read[TRANSPORT_MOST_TAGS];
	uint32_t to_read_first;
	uint32_t to_read_count;
	sem_t reads;
	sem_t writes;
	sem_t writebacks;
	atomic_uint_least64_t
		unwritten_bytes; /* of the media file, in the kernel's memory at most */

	/* cut.c */
	bool has_power;
	struct cut cut;
	int news; /* eventfd: cut.is_news */

	struct lateness lateness;
	uint64_t requests;
	uint64_t flushes;
	uint64_t waited_for_room;
	uint64_t waited_for_media;
};

/* service.c. With the lock held: ends a request with this errno. */
void service_fail(struct service *service, struct slot *slot, int error);
/* Has the service thread look again; with the lock or without. */
void service_wake(struct service *service);

/* media.c */
int media_start(struct service *service, int priority);
/* With the lock held. */
void media_read(struct service *service, struct slot *slot);
void media_write(struct service *service);
/* Waits, without the lock, until the media file has all that is on the platter. 0, or errno of a failed write. */
int media_drain(struct service *service);

#endif
