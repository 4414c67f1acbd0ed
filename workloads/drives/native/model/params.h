/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A drive's parameters, as text of one "key value value ..." a line, which workloads/drives/model.py makes of a TOML
 * file. Both C programs read this text; run.json keeps it, so that a run names its drive exactly.
 */
#ifndef SEEKMETER_DRIVE_PARAMS_H
#define SEEKMETER_DRIVE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define DRIVE_MOST_ZONES 64
#define DRIVE_MOST_SEEKS 256

struct drive_zone {
	uint32_t last_cylinder;
	uint32_t sectors_per_track;
};

struct drive_seek {
	uint32_t cylinders;
	int64_t ns;
};

enum drive_scheduling { DRIVE_FIFO, DRIVE_SSTF, DRIVE_SPTF };

struct drive_params {
	uint64_t
		sectors; /* "sectors N": the disk's size that the host sees; the rest of the platters is unused */
	uint64_t
		first_sector; /* "first_sector N": DISK=hdd@OFFSET: the host's sector 0 is this one of the drive */
	double rpm;	   /* "rpm X" */
	uint32_t surfaces; /* "surfaces N": of tracks, heads */
	uint32_t
		zone_count; /* "zone LAST_CYLINDER SECTORS_PER_TRACK", outermost first, a line each */
	struct drive_zone zones[DRIVE_MOST_ZONES];
	uint32_t
		seek_count; /* "seek CYLINDERS NS", a line each, growing: a table, straight lines between its points */
	struct drive_seek seeks[DRIVE_MOST_SEEKS];
	int64_t write_settle_ns; /* "write_settle_ns N": added to a seek or head switch before writing */
	int64_t head_switch_ns; /* "head_switch_ns N" */
	double track_skew;	/* "track_skew X": of a revolution, from one surface to the next */
	double cylinder_skew;	/* "cylinder_skew X": the same, from one cylinder to the next */
	int64_t read_overhead_ns; /* "read_overhead_ns N": the electronics, a request */
	int64_t write_overhead_ns;
	double bus_bytes_per_s; /* "bus_bytes_per_s X" */
	uint32_t
		queue_depth; /* "queue_depth N": requests among which the drive chooses; 1: no queueing */
	enum drive_scheduling scheduling; /* "scheduling fifo|sstf|sptf" */
	int64_t most_age_ns;		  /* "most_age_ns N": an older request goes first */
	uint64_t write_cache_bytes;	  /* "write_cache_bytes N"; 0: write through */
	uint32_t
		write_cache_extents; /* "write_cache_extents N": most dirty extents, whatever their size */
	double destage_at; /* "destage_at X": share of the cache from which destages go before reads; else when idle */
	int64_t destage_idle_ns; /* "destage_idle_ns N": time without requests before destages begin by themselves */
	uint32_t read_segments;	  /* "read_segments N": of read-ahead; 0: none */
	uint32_t segment_sectors; /* "segment_sectors N" */
};

/* Reads the text. 0, or -1 with one line about the fault in error. Each key is there once (zone, seek: more). */
int drive_params_read(FILE *text, struct drive_params *params, char error[256]);

#endif
