// SPDX-License-Identifier: BSD-2-Clause
/*
 * The flight recorder: when segments are cut, and which are kept; see ring.h.
 *
 * All tables are cut at one instant. Time bins are cut there, the buffers are emptied until all of these bins are, and
 * then the tables go on in a new segment: each row of before the cut is in the segment that ends with it. Rows of the
 * few milliseconds of emptying are there, too: the next segment begins, for windows, after these.
 */
#include "ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "jsonl.h"
#include "options.h"
#include "registry.h"
#include "ring_dirs.h"
#include "ring_store.h"
#include "second.h"
#include "time_bins.h"
#include "triggers.h"

#define SEGMENTS_OF_KEEP 6
#define SEGMENTS_OF_RAM	 8  /* a segment is cut early, so that dropping the oldest loses little */
#define DRAIN_TRIES	 20 /* a millisecond each, until the bins before a cut are emptied */
#define LOOK_NS		 NS_PER_SEC
#define KEPT_MOST	 1000

static const struct options *with; /* NULL: no ring */
static void (*drain)(void);
static enum { ARMED, FIRED, RESTING } phase;
static uint64_t fired_ns, condition_ns, ignored, look_ns, cut_tried_ns;
static unsigned int fired_count, kept_count;
static struct kept {
	unsigned int number;
	uint32_t first, last; /* segments */
} unclaimed[KEPT_MOST];
static size_t unclaimed_count;

/* text as a JSON string; to be freed; NULL: no memory. */
static char *json_of(const char *text)
{
	char *json = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&json, &bytes);

	if (!out)
		return NULL;
	json_string(out, text ? text : "");
	if (!fclose(out))
		return json;
	free(json);
	return NULL;
}

static void fire(const struct firing *firing)
{
	char *trigger, *kind, *detail;
	uint64_t now = monotonic_ns();

	condition_ns = now;
	if (phase != ARMED) {
		ignored++;
		return;
	}
	phase = FIRED;
	fired_count++;
	fired_ns = firing->ns ? firing->ns : now;
	trigger = json_of(firing->trigger);
	kind = json_of(firing->kind);
	detail = json_of(firing->detail);
	flight_say(
		"{\"fired\":%u,\"ns\":%llu,\"trigger\":%s,\"kind\":%s,\"value\":%llu,\"detail\":%s}",
		fired_count, (unsigned long long)fired_ns, trigger ? trigger : "\"\"",
		kind ? kind : "\"\"", (unsigned long long)firing->value, detail ? detail : "\"\"");
	free(trigger);
	free(kind);
	free(detail);
}

int ring_open(struct options *options)
{
	if (!options->ring_keep_ns)
		return 0;
	if (store_open(options) || second_open(options))
		return -1;
	with = options;
	on_fire = fire;
	return 0;
}

void ring_begin(uint64_t ready_ns, void (*empty)(void))
{
	if (!with)
		return;
	drain = empty;
	store_begin(ready_ns);
	second_begin(ready_ns);
	flight_say("{\"armed_ns\":%llu}", (unsigned long long)ready_ns);
}

static void sample_border(void)
{
	const struct collector_ops *ops;

	for_each_collector(ops) if (ops->state->on && ops->at_border) ops->at_border();
}

static bool cut_segment(void)
{
	uint64_t cut_ns;
	bool later;

	sample_border();
	cut_ns = bins_cut(0, &later);
	if (!cut_ns)
		cut_ns = monotonic_ns();
	cut_tried_ns = cut_ns;
	while (monotonic_ns() < cut_ns)
		;
	for (int i = 0; i < DRAIN_TRIES; i++) {
		usleep(1000);
		drain();
		if (bins_are_drained(cut_ns))
			break;
	}
	if (!store_cut(cut_ns))
		return false;
	sample_border();
	return true;
}

/* Writes what is under way, such as requests and threads, into kept-N/. */
static void write_under_way(uint64_t from_ns, uint64_t until_ns)
{
	const struct collector_ops *ops;
	struct options kept = *with;

	kept.whole_fd = kept.segment_fd = store_kept_dir(fired_count);
	if (kept.whole_fd < 0) {
		fail("kept", strerror(errno));
		return;
	}
	for_each_collector(ops) if (ops->state->on && ops->keep)
		ops->keep(&kept, from_ns, until_ns);
	close(kept.whole_fd);
	store_kept_measured(fired_count);
}

/* The first segment of the window around the firing; store_count(): none is left. */
static size_t first_of_window(void)
{
	uint64_t from_ns = fired_ns > with->ring_keep_ns ? fired_ns - with->ring_keep_ns : 0;
	size_t first = 0;

	while (first < store_count() && store_at(first).end_ns <= from_ns)
		first++;
	return first;
}

static void say_kept(size_t first)
{
	struct segment begin = store_at(first), end = store_at(store_count() - 1);
	const char *why = "";
	char *names = NULL, name[32];
	size_t bytes = 0;
	FILE *out = open_memstream(&names, &bytes);

	if (begin.start_ns + with->ring_keep_ns > fired_ns)
		why = begin.number ? "ram" : "start";
	for (size_t i = first; out && i < store_count(); i++)
		fprintf(out, "%s\"%s\"", i > first ? "," : "",
			segment_name(store_at(i).number, name));
	if (out && !fclose(out))
		flight_say("{\"kept\":%u,\"from_ns\":%llu,\"to_ns\":%llu,\"segments\":[%s],"
			   "\"asked_ns\":%llu,\"why_short\":\"%s\"}",
			   fired_count, (unsigned long long)begin.start_ns,
			   (unsigned long long)end.end_ns, names,
			   (unsigned long long)with->ring_keep_ns, why);
	free(names);
}

/* Keeps the window around the firing. is_over: the tables are closed, nothing is under way. */
static void keep(bool is_over)
{
	size_t first = first_of_window();
	struct kept *kept = &unclaimed[unclaimed_count];

	if (first == store_count() || unclaimed_count == KEPT_MOST) {
		fail("kept", "no segment of the window is left");
		return;
	}
	*kept = (struct kept){ fired_count, store_at(first).number,
			       store_at(store_count() - 1).number };
	unclaimed_count++;
	store_hold(kept->first, kept->last, true);
	if (!is_over)
		write_under_way(store_at(first).start_ns, store_at(store_count() - 1).end_ns);
	/* Segments may have had to go for that. */
	first = first_of_window();
	if (first < store_count())
		say_kept(first);
	kept_count++;
}

/* Lets go of the segments of windows that have been claimed. */
static void look_for_claims(void)
{
	size_t left = 0;

	for (size_t i = 0; i < unclaimed_count; i++) {
		if (store_claimed(unclaimed[i].number))
			store_hold(unclaimed[i].first, unclaimed[i].last, false);
		else
			unclaimed[left++] = unclaimed[i];
	}
	unclaimed_count = left;
	/* Windows may share segments. */
	for (size_t i = 0; i < left; i++)
		store_hold(unclaimed[i].first, unclaimed[i].last, true);
}

static void rearm(uint64_t now_ns)
{
	if (now_ns - condition_ns < with->gap_ns)
		return;
	phase = ARMED;
	flight_say("{\"rearmed_ns\":%llu,\"ignored\":%llu}", (unsigned long long)now_ns,
		   (unsigned long long)ignored);
	ignored = 0;
}

static bool is_cut_due(uint64_t now_ns)
{
	struct segment open = store_open_segment();

	if (now_ns - cut_tried_ns < NS_PER_SEC / 10)
		return false;
	return now_ns - open.start_ns >= with->ring_keep_ns / SEGMENTS_OF_KEEP ||
	       store_open_exceeds(with->ram_bytes / SEGMENTS_OF_RAM);
}

bool ring_tick(uint64_t now_ns)
{
	uint64_t end_ns, want_ns;

	if (!with)
		return true;
	second_tick(now_ns);
	if (phase != ARMED && triggers_present())
		condition_ns = now_ns;
	if (phase == FIRED && now_ns >= fired_ns + with->after_ns) {
		if (cut_segment()) {
			keep(false);
			phase = RESTING;
		}
	} else if (now_ns > store_open_segment().start_ns && is_cut_due(now_ns)) {
		(void)cut_segment();
	}
	if (phase == RESTING)
		rearm(now_ns);
	if (now_ns - look_ns > LOOK_NS) {
		look_ns = now_ns;
		look_for_claims();
	}
	if (store_count()) {
		end_ns = store_at(store_count() - 1).end_ns;
		if (phase == FIRED && fired_ns < end_ns)
			end_ns = fired_ns;
		want_ns = end_ns > with->ring_keep_ns ? end_ns - with->ring_keep_ns : 0;
		store_wanted_from(want_ns);
		store_forget(want_ns);
	}
	return !with->times || kept_count < with->times;
}

void ring_end(uint64_t until_ns)
{
	if (!with)
		return;
	second_close(until_ns);
	store_end(until_ns);
	if (phase == FIRED)
		keep(true);
	flight_say("{\"stopped_ns\":%llu,\"second_rows_lost\":%llu}", (unsigned long long)until_ns,
		   (unsigned long long)second_lost());
	store_close();
	with = NULL;
}
