/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Records that BPF programs pass to user space. This header, and those it includes, are all that both sides share.
 *
 * The recorder reads each layout from the BPF object's BTF and writes the layout into the table's header: it is typed
 * once. Times are CLOCK_MONOTONIC nanoseconds, sizes are bytes, sectors are 512 bytes.
 */
#ifndef SEEKMETER_RECORDS_H
#define SEEKMETER_RECORDS_H

#ifndef SEEKMETER_KERNEL_H
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#endif

/* Disks and volumes that are recorded: as many disks as DISK= may name (workloads/cli/disk_options.py). */
#define MAX_DEVS 64

/* The head of a ring of one CPU: one writer (rings.h), one reader (the recorder). Records follow. */
struct ring {
	u64 head; /* records ever written */
	u64 tail; /* records ever read */
	u64 full; /* records not written because it was full */
	u64 taken; /* records that the reader has read, or begun to read: nobody changes these any more */
	u64 pad[4];
};

#include "block/block_records.h"
#include "calls/call_records.h"
#include "common/cpu_records.h"
#include "events/event_records.h"
#include "holds/hold_records.h"
#include "locks/lock_records.h"
#include "locks/lock_sample_records.h"
#include "sched/sched_records.h"
#include "threads/thread_slots.h"

#endif
