/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the recorder's parts share.
 *
 * The recorder is one process: it loads the BPF programs of each source, empties their buffers every
 * DRAIN_MS, writes fixed-size records to one file a table, and keeps losses.json up to date. A source is
 * one file (block.c, locks.c, calls.c, holds.c, counters.c) with four functions and a state that losses.c prints.
 */
#ifndef SEEKMETER_RECORDER_H
#define SEEKMETER_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bpf_object;
struct btf;

#define DRAIN_MS    20
#define MAX_DEVS    4
#define MAX_TARGETS 256 /* file systems under test */
#define MAX_REASONS 32

/* One disk whose requests are recorded. */
struct disk {
	char name[32]; /* as in /sys/block */
	unsigned int major, minor;
	unsigned int hw_queues; /* blk-mq hardware queues */
	unsigned int tags;	/* tags of the deepest of them */
	bool fua;		/* writes through by itself (queue/fua) */
};

struct options {
	int out_fd; /* directory the tables go to */
	struct disk disks[MAX_DEVS];
	int disk_count;
	int cgroup_fd; /* cgroup2 directory of the workload; -1: everything is the workload */
	/* Inode of the directory that the workload's memory is charged to; 0: none of its own, or nobody asks. */
	uint64_t memory_cgroup_id;
	uint64_t bin_ns;     /* length of a time bin */
	bool probe;	     /* load and attach to see whether it works; nothing is kept */
	uint32_t target_dev; /* st_dev of the file system under test, kernel encoding; 0: none */
	uint32_t more_targets[MAX_TARGETS - 1]; /* the same of others, where several are meant */
	int more_target_count;
	const char
		*target_path; /* where it will be mounted; NULL: it is, and mountinfo says where */
	const char *borders;  /* the socket to answer at, see borders.c; NULL: none */
	uint32_t owner;	      /* the user whose processes may ask there, beside root */
	bool addresses;	      /* kernel addresses may be written too */
	uint64_t room_bytes;  /* largest size of all that is written; 0: the usual one */
	uint64_t
		floor_bytes; /* free space of the file system that is left alone, if floor_given; 0: none */
	bool floor_given;
	bool verbose;
};

/* Why so many events are missing (lost) or remarkable (note); the name ends up in the report. */
struct reason {
	const char *name;
	uint64_t count;
};

/*
 * What the kernel counted of BPF programs in the sampled windows together. The squares, and the products with the
 * windows' lengths, give the interval in which the mean lies (a ratio of sums over windows).
 */
struct bpf_cost {
	uint64_t runs, ns;
	double ns_squared, ns_wall_ns;
};

/* The sampled windows themselves, and all sources together in them. */
struct bpf_windows {
	uint64_t count, wall_ns;
	double wall_ns_squared;
	struct bpf_cost all;
};

struct source;

/* What a source tells of itself; losses.c prints it, whatever state the source is in. */
struct source_state {
	bool wanted, on;
	char why[256];	  /* when off: what is missing */
	char remedy[256]; /* when off: what the user can do about it */
	uint64_t seen, recorded;
	struct reason lost[MAX_REASONS];
	struct reason notes[MAX_REASONS];
	struct bpf_object *object; /* whose run time is sampled; NULL: no BPF */
	/*
	 * The kernel skips a program while the same one runs on that CPU. The only program whose skips are events
	 * lost: what is missed by those of others this source finds out, and counts under other reasons. NULL: of
	 * each program; "": of none.
	 */
	const char *begins;
	struct bpf_cost cost;	   /* filled by bpfstats.c, as are the misses and skips */
	uint64_t recursion_misses; /* of all runs, not only of those in the sampled windows */
	uint64_t skipped;	   /* of these the events that nobody saw */
	uint64_t drain_ns;	   /* CPU time of this process spent for this source */
};

/*
 * start: open, load and attach; 0, or -1 with why and remedy filled (nothing is left attached then).
 * begin: all sources are started, and from here on buffers are emptied; NULL: it loses nothing until then.
 * drain: empty the buffers; `last` is the final call, after detach.
 * retarget: from here on this is the device number of the file system under test; NULL: it does not care.
 * detach: stop events; the buffers stay readable.
 * stop: free everything. Safe after a failed start.
 */
struct source {
	const char *name;
	int (*start)(const struct options *options);
	void (*begin)(void);
	void (*drain)(bool last);
	void (*retarget)(uint32_t dev);
	void (*detach)(void);
	void (*stop)(void);
	struct source_state *state;
};

extern const struct source block_source, locks_source, calls_source, holds_source, counters_source;

/* main.c: in the order in which they start. */
#define SOURCE_COUNT 5
extern const struct source *const sources[SOURCE_COUNT];

/* options.c: -1, and the error is printed, if the words are wrong. */
int options_parse(int argc, char **argv, struct options *options);
/* Prints the error; returns -1. */
int fail(const char *subject, const char *why);

/* Set why and remedy of a source that can't run; returns -1 so that start can return it. */
int source_off(struct source_state *state, const char *remedy, const char *why, ...)
	__attribute__((format(printf, 3, 4)));
/* Add to the count of one reason in state->lost or state->notes; the name must be a literal. */
void reason_add(struct reason *reasons, const char *name, uint64_t count);
/* The same, but the count is a running total kept elsewhere. */
void reason_set(struct reason *reasons, const char *name, uint64_t count);

/*
 * percpu_counts.c: the counts of all CPUs as one. map_fd: a BPF_MAP_TYPE_PERCPU_ARRAY of one struct whose members are all
 * u64; sum, bytes: such a struct. False: they can't be read, and sum is all zero.
 */
bool counts_sum(int map_fd, int cpus, void *sum, size_t bytes);

/* new_file.c: creates it to be written, nobody else's; what had the name is unlinked. -1 with errno. */
int new_file(int dir_fd, const char *name);

/* rec_file.c: one table on disk. */
struct rec_file;
/*
 * Creates TABLE.rec in the output directory; its header describes `struct_name` of `btf` (the BPF object's
 * own), so the layout is written once, in bpf/common/records.h. An enum member's names come from BTF as well; a
 * prefix common to all of them is dropped and the rest is lower case (BLOCK_OP_READ -> "read").
 * flag_enum, or NULL, names one more enum whose values name the bits of a mask.
 * NULL on failure with errno set.
 */
struct rec_file *rec_file_open(const struct options *options, const char *table,
			       const struct btf *btf, const char *struct_name,
			       const char *flag_enum);
/* The same for a table that has no BPF object: the header's JSON as it stands. */
struct rec_file *rec_file_open_json(const struct options *options, const char *table,
				    const char *json, size_t record_bytes);
/* How many events a record stands for; without this, one. */
void rec_file_events(struct rec_file *file, uint64_t (*events)(const void *record));
/*
 * Appends whole records. What can't be written is counted, in events, in state->lost ("no room", "disk full" or
 * "write failed") and given up; the file always ends on a record. Returns the number of records written.
 */
size_t rec_file_write(struct rec_file *file, struct source_state *state, const void *records,
		      size_t count);
void rec_file_close(struct rec_file *file, struct source_state *state);

/*
 * stacks.c: kernel stacks -> stack.jsonl, each once. map_fd: a BPF_MAP_TYPE_STACK_TRACE map; for ids from
 * LOCK_HOLDER_STACK_IDS on, a hash map of struct lock_holder_stack.
 */
int stacks_open(const struct options *options);
/*
 * Writes the stack if it's new. *number: what it is called in the file and in the tables, 0, 1, 2… (the map's ids are
 * hashes of addresses, by which a guess of these could be checked); of ids below 0 the id. False: it could not be
 * read or written (counted by the caller); a later try may do better, under the same number.
 */
bool stacks_note(int map_fd, int32_t stack_id, int32_t *number);
/* Symbol for a kernel address, "name" with *offset; NULL if not known. */
const char *stacks_symbol(uint64_t address, uint64_t *offset);
/* How many of a stack's frames, innermost first, are the tracing's own. */
int stacks_own_frames(const uint64_t *frames, int count);
/* Where the symbol is; 0: not listed. */
uint64_t stacks_address(const char *name);
/* Every function the kernel lists, with its text; it ends where the next symbol begins. None without addresses. */
void stacks_each_function(void (*each)(const char *name, uint64_t begin, uint64_t end));
/* Writes what was noted; what can't be written now is tried again. */
void stacks_flush(void);
void stacks_close(void);

/* What losses.json says of the recorder itself. */
struct recorder_times {
	uint64_t until_ns;     /* all until then is in the tables, but for bins not yet over */
	uint64_t start_cpu_ns; /* CPU time that it had used when it began to record */
};

/* losses.c: writes losses.json, new file then rename, so a reader never sees half of it. */
void losses_write(const struct options *options, const struct source *const *sources, int count,
		  const struct recorder_times *times, bool complete);
void json_string(FILE *out, const char *text);

/* bpfstats.c: what the kernel spends in our programs, sampled (kernel.bpf_stats_enabled costs time itself). */
void bpfstats_tick(const struct source *const *sources, int count, uint64_t now_ns);
/* Closes a window that is open. To be called while everything is attached still: it counts until then. */
void bpfstats_close(const struct source *const *sources, int count);
/* Reads what is counted outside of windows too, for the last time. */
void bpfstats_stop(const struct source *const *sources, int count);
const struct bpf_windows *bpfstats_windows(void);

/*
 * Whether CPUs are emulated (SEEKMETER_EMULATED_CPUS=1, set by a session for its guest). Switching a busy hook of the kernel
 * patches code that all CPUs are running; QEMU's emulated CPUs (7.2, two threads) now and then never leave the
 * breakpoint that is there meanwhile, and hang. So such hooks are left alone there.
 */
bool emulated_cpus(void);
uint64_t monotonic_ns(void);
uint64_t thread_cpu_ns(void);

#endif
