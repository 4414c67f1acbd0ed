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

#define DRIVE_MOST_ZONES  64
#define DRIVE_MOST_SEEKS  256
#define DRIVE_MOST_DEPTH  256
#define DRIVE_ERROR_BYTES 256

struct drive_zone {
	uint32_t last_cylinder;
	uint32_t sectors_per_track; /* 16 to 65535 */
};

struct drive_seek {
	uint32_t cylinders; /* at least 1 */
	int64_t ns;
};

enum drive_scheduling { DRIVE_FIFO, DRIVE_SSTF, DRIVE_SPTF };

/* Each field has its key beside it. Ranges: params.c. */
struct drive_params {
	/* sectors: the disk's size that the host sees; the rest of the platters is unused */
	uint64_t sectors;
	/* first_sector: DISK=hdd@OFFSET: the host's sector 0 is this one of the drive */
	uint64_t first_sector;
	/* rpm, a decimal number */
	double rpm;
	/* surfaces: of tracks, heads */
	uint32_t surfaces;
	/* zone LAST_CYLINDER SECTORS_PER_TRACK: a line each, outermost first */
	uint32_t zone_count;
	struct drive_zone zones[DRIVE_MOST_ZONES];
	/* seek CYLINDERS NS: a line each, growing: straight lines between them; below the first and beyond the last: theirs */
	uint32_t seek_count;
	struct drive_seek seeks[DRIVE_MOST_SEEKS];
	/* write_settle_ns: added to a seek or a head switch before writing */
	int64_t write_settle_ns;
	/* head_switch_ns */
	int64_t head_switch_ns;
	/*
	 * track_skew, cylinder_skew: shares of a revolution (0 <= x < 1) from one surface to the next, and from one
	 * cylinder to the next. A skew below (head switch or seek of 1 + write settle) costs a revolution a track.
	 */
	double track_skew;
	double cylinder_skew;
	/* read_overhead_ns, write_overhead_ns: of the electronics, a request; hidden while the head serves another one */
	int64_t read_overhead_ns;
	int64_t write_overhead_ns;
	/* bus_bytes_per_s */
	double bus_bytes_per_s;
	/* queue_depth: requests among which the drive chooses; 1: no queueing */
	uint32_t queue_depth;
	/* scheduling fifo|sstf|sptf */
	enum drive_scheduling scheduling;
	/* most_age_ns: an older request goes first; 0: no limit */
	int64_t most_age_ns;
	/* write_cache_bytes; 0: write through. A write of more than half of it goes to the platter directly */
	uint64_t write_cache_bytes;
	/* write_cache_extents: most dirty extents, whatever their size */
	uint32_t write_cache_extents;
	/* destage_at: share of the cache (0..1) from which destages take turns with requests, until it is empty */
	double destage_at;
	/* destage_idle_ns: time without requests before destages begin by themselves */
	int64_t destage_idle_ns;
	/*
	 * destage_window: among so many of the oldest dirty extents the drive chooses the next destage by position.
	 * Without the line, or 0: among the nearest to the head, whatever their age (more than firmware does: a flush of
	 * many scattered writes then takes less than in line with their number).
	 */
	uint32_t destage_window;
	/* read_before: 1: a read keeps the sectors of its track that pass the head before its first one, too */
	uint32_t read_before;
	/* read_segments, segment_sectors: of read-ahead; 0 segments: none */
	uint32_t read_segments;
	uint32_t segment_sectors;
};

/* Reads the text. 0, or -1 with one line about the fault in error. Each key is there once (zone, seek: more). */
int drive_params_read(FILE *text, struct drive_params *params, char error[DRIVE_ERROR_BYTES]);

/* The same checks of values for parameters that no text gave. 0, or -1 with one line in error. */
int drive_params_check(const struct drive_params *params, char error[DRIVE_ERROR_BYTES]);

#endif
