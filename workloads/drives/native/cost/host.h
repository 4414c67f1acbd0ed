/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that are in the host or the drive, and the elevator that sorts those before the drive. */
#ifndef SEEKMETER_DRIVE_HOST_H
#define SEEKMETER_DRIVE_HOST_H

#include "model/drive.h"

#define HOST_NONE	   UINT32_MAX
#define HOST_MOST_REQUESTS 65536
#define HOST_MOST_SORTED   4096

struct host_request {
	struct drive_request request; /* id: its number here */
	uint64_t number;	      /* in the stream */
	int64_t issue_ns;
	uint64_t own_sector;
	uint32_t own_sectors;
	uint64_t sector, sectors; /* of all that are merged into it */
	uint32_t merged;	  /* the next one that is merged into the same, or HOST_NONE */
	uint32_t older,
		newer; /* by issue, of those of one direction in the elevator; newer: the next free one */
};

/* Requests of one direction, sorted by position, and in order of issue. */
struct sorted {
	uint32_t requests[HOST_MOST_SORTED];
	uint32_t count;
	uint32_t oldest, newest;
	uint64_t position; /* the next one of a batch begins here or behind */
};

struct host {
	struct host_request *requests;
	uint32_t free;
	uint32_t count;
	uint32_t most_sorted;	 /* nr_requests; 0: no elevator */
	uint32_t most_merged;	 /* sectors; 0: no merging */
	struct sorted sorted[2]; /* DRIVE_OP_READ, DRIVE_OP_WRITE */
	unsigned int direction;
	unsigned int batched;
	unsigned int starved; /* batches of reads while writes waited */
};

/* 0, or -1 with errno ENOMEM. */
int host_init(struct host *host, uint32_t most_sorted, uint32_t most_merged);
void host_free(struct host *host);

/* A place for a request, or HOST_NONE. */
uint32_t host_take(struct host *host);
void host_release(struct host *host, uint32_t number);

/* Puts a read or write into the elevator, or merges it into one there. False: the elevator is full. */
bool host_sort(struct host *host, uint32_t number);

/* The request that goes to the drive next, taken out, or HOST_NONE. */
uint32_t host_dispatch(struct host *host, int64_t now_ns);

#endif
