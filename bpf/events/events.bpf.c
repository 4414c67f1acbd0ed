// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What the file system, its writeback and memory reclaim do on their own: commits, checkpoints, flushes, pauses, reclaim,
 * readahead; each with its begin, its end and its reason.
 *
 * Each header is one source. The recorder leaves out what the kernel does not have (a tracepoint, a module), and says
 * which kinds are therefore not shown. Kinds that come often are recorded within a budget (event_state.h), and as sums
 * of a larger event where there is one.
 */
#include "common/kernel.h"

#define __VMLINUX_H__ /* kernel.h names the registers as the kernel does, and bpf_tracing.h asks for that */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "event_btrfs.h"
#include "event_f2fs.h"
#include "event_journal.h"
#include "event_memory.h"
#include "event_state.h"
#include "event_writeback.h"
#include "event_xfs.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
