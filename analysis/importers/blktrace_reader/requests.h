/* SPDX-License-Identifier: BSD-2-Clause */
/* Events to requests: queued, merged, split, issued, requeued and completed, by device. */
#ifndef SEEKMETER_BLKTRACE_REQUESTS_H
#define SEEKMETER_BLKTRACE_REQUESTS_H

#include "actions.h"
#include "bios.h"
#include "devices.h"
#include "events.h"
#include "names.h"
#include "output.h"
#include "pieces.h"
#include "plugs.h"
#include "splits.h"

/* Distinguishes requests at the same sector. A flush is a read, or (before 4.8) a write, of no bytes. */
#define KIND_MASK  (CATEGORY_READ | CATEGORY_WRITE | CATEGORY_DISCARD | CATEGORY_PASSTHROUGH)
#define KIND_EMPTY 1U

static inline uint32_t kind_of(const struct event *event)
{
	return (event->action & KIND_MASK) | (event->bytes ? 0 : KIND_EMPTY);
}

/* Events that became no row (lost), and remarkable rows (notes). */
struct request_counts {
	/* lost */
	uint64_t issue_unseen;	 /* completions without an issue */
	uint64_t forgotten;	 /* bios and requests given up because too many were open */
	uint64_t unknown_action; /* events of no kind known */
	uint64_t too_late;	 /* events longer after the first than any trace lasts */
	uint64_t no_device;	 /* events of more devices than are kept apart */
	uint64_t remap_cut;	 /* remaps that do not say of what */
	uint64_t bio_unseen;	 /* ends of volumes' bios that were not queued */
	/* notes */
	uint64_t issued_before; /* completions without an issue in the trace's first second */
	uint64_t queue_unseen;	/* requests whose bio was not seen: their own first event instead */
	uint64_t complete_unseen; /* rows without an end */
	uint64_t partial;	  /* completions of a part */
	uint64_t longer;	/* completions that blkparse had made longer: made what they were */
	uint64_t empty_flushes; /* bios without data that wait for a flush */
	uint64_t failed_unissued; /* bios that failed before there was a request */
	uint64_t bio_rows;	  /* rows made of bios, as no request was traced at all */
	uint64_t remap_unmatched; /* remaps of a volume that serve no bio seen */
	uint64_t bio_end_unseen;  /* rows of volumes without an end */
	uint64_t
		bio_queued_before; /* ends of volumes' bios, not queued, in the trace's first second */
	uint64_t bio_parts;	   /* ends of a volume's bio that are of its part */
	uint64_t open_bios;	   /* of volumes, at the end */
	uint64_t merges_unseen;	   /* requests of several bios whose merges were not all seen */
	uint64_t requeue_unknown;	      /* requeues of requests not seen */
	uint64_t disordered;		      /* events further out of order than the window */
	uint64_t open_queued, open_in_flight; /* at the end */
};

struct requests {
	struct pieces pieces;
	struct bios bios; /* of volumes */
	uint64_t bio_id;  /* the last given */
	struct devices devices;
	struct names names;
	struct plugs plugs;
	struct splits splits;
	struct output *output;
	struct request_counts counts;
	uint64_t events, first_ns, last_ns; /* of events that are no notes */
	uint64_t shift_ns;		    /* added to every time */
	uint64_t actions[ACTION_COUNT], notes[3];
	int64_t realtime_offset_ns;
	bool has_realtime;
	int error; /* errno; nothing more can be done */
};

int requests_init(struct requests *requests, struct output *output);
/* May change the event. */
void requests_event(struct requests *requests, struct event *event);
/* Counts what is open. */
void requests_end(struct requests *requests);
void requests_free(struct requests *requests);

#endif
