/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder's command line, and the queue settings of each --disk from /sys/block. */
#ifndef SEEKMETER_OPTIONS_H
#define SEEKMETER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

#define MAX_TARGETS    256 /* file systems under test */
#define MAX_COMPONENTS 256 /* partitions and disks that volumes are made of */
#define HIDDEN_MAJOR \
	4095 /* of the numbers given to disks without one; the kernel's major numbers end below it */

/* One disk whose requests are recorded, or a volume above disks, whose bios are recorded. */
struct disk {
	char name[32]; /* as in /sys/block */
	unsigned int major, minor;
	unsigned int
		hw_queues; /* blk-mq hardware queues; 0: a volume without requests of its own */
	unsigned int tags; /* tags of the deepest hardware queue */
	bool fua;	   /* FUA writes need no flush behind them (queue/fua) */
	bool is_hidden; /* a path of NVMe multipath: no device number, so it is known by its name */
	bool is_volume;
	bool shares_pages; /* a volume that queues clones of its bios without saying so (block_bio_remap) */
	bool has_parts;	 /* a volume made of other devices; zram is not */
	bool has_parity; /* md of level 4, 5 or 6 */
	/* md: where the data begins on each member. */
	uint64_t data_offset_sectors;
	/* md with parity: the member with the volume's first sector, major << 20 | minor; 0: not known. */
	uint32_t first_member;
};

struct options {
	bool list;    /* print the collectors, and end */
	bool probe;   /* load and attach to see whether it works; nothing is kept */
	bool version; /* print the version, and end */
	bool verbose;
	const char *unpack; /* print this table unpacked, and end; NULL: no */
	int out_fd;	    /* directory of the tables */
	/* Where tables are made: out_fd; with --ring those that stay whole, and the segment that is open at first. */
	int whole_fd, segment_fd;
	/* Without a session (alone/alone.h): the watched device, how long (0: until a signal), and the new directory. */
	const char *dev;
	uint64_t record_ns;
	const char *out;
	struct disk disks[MAX_DEVS];
	int disk_count;
	int volume_count;		     /* of the disks */
	uint32_t components[MAX_COMPONENTS]; /* major << 20 | minor */
	int component_count;
	struct disk counted[MAX_DEVS]; /* only their counters are sampled */
	int counted_count;
	int cgroup_fd; /* cgroup2 directory of the workload; -1: everything is the workload */
	const char *
		follow_cgroup; /* followed.h: path of the cgroup, NULL: none; the process, 0: none */
	uint32_t follow_pid;
	/* Inode of the directory that the workload's memory is charged to; 0: written-back pages have no owner. */
	uint64_t memory_cgroup_id;
	uint64_t bin_ns; /* length of a time bin */
	/* st_dev of the file system under test, in the kernel's encoding; 0: none. */
	uint32_t target_dev;
	/* The st_dev of the others, where a watched device has several file systems. */
	uint32_t more_targets[MAX_TARGETS - 1];
	int more_target_count;
	/*
	 * Future mount point of the file system under test; NULL: already mounted, and mountinfo has the mount point.
	 */
	const char *target_path;
	const char *borders; /* path of the socket of borders.c; NULL: none */
	uint32_t owner;	     /* the user whose processes may use that socket, as root's may */
	bool addresses;	     /* kernel addresses may be written */
	uint64_t room_bytes; /* most that is written; 0: ROOM_MOST_BYTES */
	/* If floor_given: free space of the file system that stays free; 0: none. */
	uint64_t floor_bytes;
	bool floor_given;
	/* The flight recorder (ring.h); ring_keep_ns 0: none. */
	uint64_t ring_keep_ns; /* kept before a firing */
	uint64_t after_ns, gap_ns;
	uint64_t ram_bytes; /* of all that lies in out_fd */
	uint64_t times;	    /* windows that are kept at most; 0: any number */
};

/* 0; -1 if the command line is wrong: the error is printed. */
int options_parse(int argc, char **argv, struct options *options);

#endif
