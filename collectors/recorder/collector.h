/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A collector inside the recorder: its operations, and the state that losses.json prints.
 *
 * The recorder is one process. It loads the BPF programs of each collector, empties their buffers every DRAIN_MS,
 * writes fixed-size records to one file per table, and keeps losses.json up to date.
 *
 * To add a collector: collectors/NAME/NAME.c with a struct collector_ops, registered by REGISTER_COLLECTOR
 * (registry.h), and its BPF program in bpf/NAME/. No list names the collectors.
 */
#ifndef SEEKMETER_COLLECTOR_H
#define SEEKMETER_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_object;
struct options;

#define DRAIN_MS    20
#define MAX_REASONS 32

/* Events lost (or events worth a note) for one reason; the name ends up in the report. */
struct reason {
	const char *name;
	uint64_t count;
};

/*
 * Run time of BPF programs, summed over the sampled windows (bpfstats.c). The squares, and the products with the
 * windows' lengths, give the confidence interval of the mean, a ratio of sums over windows.
 */
struct bpf_cost {
	uint64_t runs, ns;
	double ns_squared, ns_wall_ns;
};

/* What losses.json says of a collector, in whatever state the collector is. */
struct collector_state {
	bool wanted, on;
	char off_reason[256]; /* while off: what is missing ("why" in losses.json) */
	char remedy[256];     /* while off: what the user can do about it */
	uint64_t seen, recorded;
	struct reason lost[MAX_REASONS];
	struct reason notes[MAX_REASONS];
	struct bpf_object *object; /* its run time is sampled; NULL: no BPF programs */
	/*
	 * The kernel skips a program while the same program runs on that CPU. NULL: each skip is an event lost. A
	 * program's name: only skips of this program are lost events; the collector detects the events that skips of
	 * its other programs lose, and counts those under other reasons. "": no skip is a lost event.
	 */
	const char *begins;
	/* The rest is filled in by bpfstats.c and main.c. */
	struct bpf_cost cost, window_start; /* so far; and as read when the open window began */
	uint64_t recursion_misses;	    /* skips of all runs, not only in the sampled windows */
	uint64_t skipped;		    /* of these skips, the events lost */
	uint64_t drain_ns;		    /* CPU time of this process spent on this collector */
};

/*
 * A collector's operations, in the order in which they are called. Only begin, drain, at_border, keep, retarget and
 * detach may be NULL.
 */
struct collector_ops {
	const char *name; /* as in --collect and losses.json */
	/* Collectors are opened and attached one after the other, by this number, and closed in the opposite order. */
	int order;
	bool on_by_default; /* recorded without being named in --collect */
	/*
	 * Reads running totals: attach() takes the first sample after the recording begins and detach() the last one
	 * before the recording ends, while the others still record. So the tables hold all that these totals count.
	 */
	bool reads_totals;

	/* Load the programs and create the tables. 0; or -1 with off_reason and remedy set (collector_off()). */
	int (*open)(const struct options *options);
	/* Let events in. 0; or -1 as open(). */
	int (*attach)(void);
	/* All collectors are attached: from here on buffers are emptied. */
	void (*begin)(void);
	/* Empty the buffers; `last`: the final call, after detach(). */
	void (*drain)(bool last);
	/* A phase begins or ends now. Called by the thread of borders.c. */
	void (*at_border)(void);
	/*
	 * The flight recorder keeps a window of this time, and goes on: write what is under way, such as requests, threads and
	 * their intervals, to tables of these options' directories.
	 */
	void (*keep)(const struct options *options, uint64_t from_ns, uint64_t until_ns);
	/* The file system under test has this device number from here on. */
	void (*retarget)(uint32_t dev);
	/* Stop events; the buffers stay readable. */
	void (*detach)(void);
	/* Free everything. Called after a failed open() or attach() too. */
	void (*close)(void);

	struct collector_state *state;
};

/* Sets off_reason and remedy of a collector that can't run; returns -1 so that open() can return it. */
int collector_off(struct collector_state *state, const char *remedy, const char *reason, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds to the count of a reason in state->lost or state->notes; the name must stay valid. For any thread. */
void reason_add(struct reason *reasons, const char *name, uint64_t count);
/* Sets the count of a reason to a running total that is kept elsewhere. */
void reason_set(struct reason *reasons, const char *name, uint64_t count);

#endif
