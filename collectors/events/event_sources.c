// SPDX-License-Identifier: BSD-2-Clause
/* Chooses the programs of events.bpf.c that this kernel can run; see event_sources.h. */
#include "event_sources.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/records.h"
#include "recorder/clock.h"
#include "recorder/features.h"
#include "recorder/jsonl.h"
#include "recorder/options.h"

/* argument: the struct that the first argument must point to; NULL: it is the same on all kernels. */
static const struct source_program {
	const char *name, *tracepoint, *module, *argument;
	enum event_source source;
	int arguments; /* at least */
} programs[] = {
	{ "journal_start_commit", "jbd2_start_commit", "jbd2", "journal_s", SOURCE_JOURNAL, 2 },
	{ "journal_flushing", "jbd2_commit_flushing", "jbd2", NULL, SOURCE_JOURNAL, 0 },
	{ "journal_logging", "jbd2_commit_logging", "jbd2", NULL, SOURCE_JOURNAL, 0 },
	{ "journal_run_stats", "jbd2_run_stats", "jbd2", NULL, SOURCE_JOURNAL, 3 },
	{ "journal_end_commit", "jbd2_end_commit", "jbd2", "journal_s", SOURCE_JOURNAL, 1 },
	{ "journal_checkpoint", "jbd2_checkpoint", "jbd2", "journal_s", SOURCE_JOURNAL, 2 },
	{ "journal_checkpoint_stats", "jbd2_checkpoint_stats", "jbd2", NULL, SOURCE_JOURNAL, 3 },
	{ "journal_tail", "jbd2_update_log_tail", "jbd2", NULL, SOURCE_JOURNAL, 4 },
	{ "journal_handle", "jbd2_handle_start", "jbd2", NULL, SOURCE_JOURNAL, 0 },
	{ "journal_sync_enter", "ext4_sync_file_enter", "ext4", "file", SOURCE_JOURNAL, 1 },
	{ "journal_sync_exit", "ext4_sync_file_exit", "ext4", "inode", SOURCE_JOURNAL, 1 },
	{ "journal_sync_fs", "ext4_sync_fs", "ext4", "super_block", SOURCE_JOURNAL, 1 },
	{ "journal_fast_start", "ext4_fc_commit_start", "ext4", "super_block", SOURCE_JOURNAL, 1 },
	{ "journal_fast_stop", "ext4_fc_commit_stop", "ext4", "super_block", SOURCE_JOURNAL, 2 },
	{ "journal_lazy_init", "ext4_lazy_itable_init", "ext4", "super_block", SOURCE_JOURNAL, 2 },
	{ "journal_discard", "ext4_discard_blocks", "ext4", "super_block", SOURCE_JOURNAL, 3 },
	{ "xfs_force", "xfs_log_force", "xfs", "xfs_mount", SOURCE_XFS, 3 },
	{ "xfs_log_wait", "xlog_iclog_wait_on", "xfs", "xlog_in_core", SOURCE_XFS, 2 },
	{ "xfs_log_done", "xlog_iclog_clean", "xfs", "xlog_in_core", SOURCE_XFS, 1 },
	{ "xfs_grant_sleep", "xfs_log_grant_sleep", "xfs", "xlog", SOURCE_XFS, 2 },
	{ "xfs_grant_wake", "xfs_log_grant_wake", "xfs", NULL, SOURCE_XFS, 0 },
	{ "xfs_cil_wait", "xfs_log_cil_wait", "xfs", "xlog", SOURCE_XFS, 1 },
	{ "xfs_ail_push", "xfs_ail_push", "xfs", "xfs_ail", SOURCE_XFS, 4 },
	{ "xfs_ail_pinned", "xfs_ail_pinned", "xfs", "xfs_ail", SOURCE_XFS, 4 },
	{ "btrfs_commit", "btrfs_transaction_commit", "btrfs", "btrfs_fs_info", SOURCE_BTRFS, 1 },
	{ "btrfs_commit_state", "btrfs_transaction_commit", "btrfs", "btrfs_trans_handle",
	  SOURCE_BTRFS, 1 },
	{ "btrfs_sync_file_begin", "btrfs_sync_file_enter", "btrfs", NULL, SOURCE_BTRFS, 0 },
	{ "btrfs_sync_file", "btrfs_sync_file", "btrfs", NULL, SOURCE_BTRFS, 0 },
	{ "btrfs_sync_fs", "btrfs_sync_fs", "btrfs", NULL, SOURCE_BTRFS, 0 },
	{ "btrfs_ticket", "btrfs_reserve_ticket", "btrfs", "btrfs_fs_info", SOURCE_BTRFS, 4 },
	{ "btrfs_flush_space", "btrfs_flush_space", "btrfs", "btrfs_fs_info", SOURCE_BTRFS, 4 },
	{ "f2fs_checkpoint", "f2fs_write_checkpoint", "f2fs", "super_block", SOURCE_F2FS, 3 },
	{ "f2fs_checkpoint_phase", "f2fs_write_checkpoint", "f2fs", "super_block", SOURCE_F2FS, 3 },
	{ "f2fs_gc_begin", "f2fs_gc_begin", "f2fs", "super_block", SOURCE_F2FS, 1 },
	{ "f2fs_gc_end", "f2fs_gc_end", "f2fs", "super_block", SOURCE_F2FS, 3 },
	{ "writeback_queue", "writeback_queue", NULL, "bdi_writeback", SOURCE_WRITEBACK, 2 },
	{ "writeback_start", "writeback_start", NULL, "bdi_writeback", SOURCE_WRITEBACK, 2 },
	{ "writeback_written", "writeback_written", NULL, NULL, SOURCE_WRITEBACK, 0 },
	{ "writeback_inode_start", "writeback_single_inode_start", NULL, "inode", SOURCE_WRITEBACK,
	  1 },
	{ "writeback_inode", "writeback_single_inode", NULL, "inode", SOURCE_WRITEBACK, 3 },
	{ "writeback_throttle_12", "balance_dirty_pages", NULL, "bdi_writeback", SOURCE_WRITEBACK,
	  12 },
	{ "writeback_throttle", "balance_dirty_pages", NULL, "bdi_writeback", SOURCE_WRITEBACK, 8 },
	{ "dirtied_folio", "writeback_dirty_folio", NULL, "folio", SOURCE_WRITEBACK, 2 },
	{ "dirtied_page", "writeback_dirty_page", NULL, "page", SOURCE_WRITEBACK, 2 },
	{ "memory_reclaim_begin", "mm_vmscan_direct_reclaim_begin", NULL, NULL, SOURCE_MEMORY, 0 },
	{ "memory_reclaim_end", "mm_vmscan_direct_reclaim_end", NULL, NULL, SOURCE_MEMORY, 1 },
	{ "memory_group_begin", "mm_vmscan_memcg_reclaim_begin", NULL, NULL, SOURCE_MEMORY, 0 },
	{ "memory_group_end", "mm_vmscan_memcg_reclaim_end", NULL, NULL, SOURCE_MEMORY, 1 },
	{ "memory_ahead_miss", "page_cache_sync_ra", NULL, NULL, SOURCE_MEMORY, 0 },
	{ "memory_ahead_mark", "page_cache_async_ra", NULL, NULL, SOURCE_MEMORY, 0 },
	{ "memory_ahead_window", "page_cache_ra_order", NULL, "inode", SOURCE_MEMORY, 3 },
	{ "memory_ahead_pages", "page_cache_ra_unbounded", NULL, "inode", SOURCE_MEMORY, 3 },
	/* Last: needed only where there is a journal. */
	{ "journal_waking", "sched_waking", NULL, "task_struct", SOURCE_JOURNAL, 1 },
};

#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

/* Which programs show a kind: the begin of their names, as one of several is for this kernel. */
static const struct {
	enum event_kind kind;
	const char *name, *program;
} kinds[] = {
	{ EVENT_KIND_JBD2_COMMIT, "jbd2_commit", "journal_start_commit" },
	{ EVENT_KIND_JBD2_CHECKPOINT, "jbd2_checkpoint", "journal_checkpoint" },
	{ EVENT_KIND_JBD2_FAST_COMMIT, "jbd2_fast_commit", "journal_fast_start" },
	{ EVENT_KIND_XFS_LOG_FORCE, "xfs_log_force", "xfs_force" },
	{ EVENT_KIND_XFS_GRANT_SLEEP, "xfs_grant_sleep", "xfs_grant_sleep" },
	{ EVENT_KIND_XFS_CIL_WAIT, "xfs_cil_wait", "xfs_cil_wait" },
	{ EVENT_KIND_XFS_AIL_PUSH, "xfs_ail_push", "xfs_ail_push" },
	{ EVENT_KIND_BTRFS_COMMIT, "btrfs_commit", "btrfs_commit" },
	{ EVENT_KIND_BTRFS_TICKET, "btrfs_ticket", "btrfs_ticket" },
	{ EVENT_KIND_BTRFS_FLUSH_SPACE, "btrfs_flush_space", "btrfs_flush_space" },
	{ EVENT_KIND_F2FS_CHECKPOINT, "f2fs_checkpoint", "f2fs_checkpoint" },
	{ EVENT_KIND_F2FS_GC, "f2fs_gc", "f2fs_gc_begin" },
	{ EVENT_KIND_WRITEBACK, "writeback", "writeback_start" },
	{ EVENT_KIND_WRITEBACK_INODE, "writeback_inode", "writeback_inode" },
	{ EVENT_KIND_DIRTY_THROTTLE, "dirty_throttle", "writeback_throttle" },
	{ EVENT_KIND_DIRECT_RECLAIM, "direct_reclaim", "memory_reclaim_begin" },
	{ EVENT_KIND_READAHEAD, "readahead", "memory_ahead_window" },
	{ EVENT_KIND_BDEV_FLUSH, "bdev_flush", "writeback_inode_start" },
	{ EVENT_KIND_LAZY_INIT, "lazy_init", "journal_lazy_init" },
	{ EVENT_KIND_DISCARD, "discard", "journal_discard" },
};

static bool is_here[PROGRAMS];

const char *source_kind_name(enum event_kind kind)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].kind == kind)
			return kinds[i].name;
	return "other";
}

/* The types of the module, if it is loaded, else the kernel's. */
static struct btf *types_of(const char *module, struct btf *kernel)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/kernel/btf/%s", module);
	return access(path, R_OK) ? NULL : btf__load_module_btf(module, kernel);
}

static bool can_run(const struct source_program *program, const struct btf *btf)
{
	if (features_arguments(btf, program->tracepoint) < program->arguments)
		return false;
	/* Of f2fs_write_checkpoint the last argument is a text, or a number. */
	if (!strcmp(program->name, "f2fs_checkpoint") &&
	    !features_pointer(btf, program->tracepoint, 2))
		return false;
	if (!strcmp(program->name, "f2fs_checkpoint_phase") &&
	    features_pointer(btf, program->tracepoint, 2))
		return false;
	return !program->argument ||
	       !features_argument(btf, program->tracepoint, program->argument);
}

static bool find_program(const char *name)
{
	for (size_t i = 0; i < PROGRAMS; i++)
		if (!strcmp(programs[i].name, name))
			return is_here[i];
	return false;
}

bool sources_find(void)
{
	struct btf *kernel = btf__load_vmlinux_btf(), *module = NULL;
	const char *name = NULL; /* of the module whose types are read */

	if (!kernel)
		return false;
	for (size_t i = 0; i < PROGRAMS; i++) {
		if (programs[i].module != name) {
			btf__free(module);
			name = programs[i].module;
			module = name ? types_of(name, kernel) : NULL;
		}
		is_here[i] = can_run(&programs[i], module ? module : kernel);
		if (!strcmp(programs[i].name, "writeback_throttle"))
			is_here[i] = is_here[i] && !find_program("writeback_throttle_12");
		if (!strcmp(programs[i].name, "journal_waking"))
			is_here[i] = is_here[i] && find_program("journal_start_commit") &&
				     !emulated_cpus();
	}
	btf__free(module);
	btf__free(kernel);
	return true;
}

bool source_shows_log_waits(void)
{
	return find_program("xfs_log_wait") && find_program("xfs_log_done");
}

/* What of a kind that is shown is not known. */
static const char *not_known(enum event_kind kind)
{
	if (kind == EVENT_KIND_XFS_LOG_FORCE)
		return source_shows_log_waits() ? "of a force that waits for no log buffer: the end"
						: "the end: no tracepoint";
	if (kind == EVENT_KIND_XFS_AIL_PUSH)
		return "begin and end: its first and last item stand in";
	if (kind == EVENT_KIND_XFS_CIL_WAIT)
		return "the end: no tracepoint";
	return "";
}

bool source_is_here(enum event_source source)
{
	for (size_t i = 0; i < PROGRAMS; i++)
		if (programs[i].source == source && is_here[i])
			return true;
	return false;
}

int sources_choose(struct bpf_object *object, unsigned int sources)
{
	for (size_t i = 0; i < PROGRAMS; i++) {
		struct bpf_program *program =
			bpf_object__find_program_by_name(object, programs[i].name);
		bool is_chosen = is_here[i] && sources & 1U << programs[i].source;

		if (!program || bpf_program__set_autoload(program, is_chosen))
			return -1;
	}
	return 0;
}

/* Why no event can be seen of the programs whose names begin so; NULL: they can. */
/* Why a tracepoint of a module is not seen. */
static const char *why_absent(const char *module)
{
	char loaded[64], types[64];

	snprintf(loaded, sizeof(loaded), "/sys/module/%s/initstate", module); /* built in: none */
	snprintf(types, sizeof(types), "/sys/kernel/btf/%s", module);
	if (!access(loaded, F_OK) && access(types, F_OK))
		return "the kernel has no type information of its modules (Linux before 5.11)";
	return "no tracepoint, or its module is not loaded";
}

static const char *why_unseen(const char *begin, unsigned int refused)
{
	const char *why = "not recorded";

	for (size_t i = 0; i < PROGRAMS; i++) {
		if (strncmp(programs[i].name, begin, strlen(begin)))
			continue;
		if (is_here[i] && !(refused & 1U << programs[i].source))
			return NULL;
		if (is_here[i])
			why = "the kernel refused the program";
		else
			why = programs[i].module ? why_absent(programs[i].module)
						 : "no such tracepoint in this kernel";
	}
	return why;
}

int sources_write(const struct options *options, unsigned int refused)
{
	struct jsonl file = { .fd = -1 };
	char line[160];

	if (jsonl_open(&file, options->whole_fd, "event_kind.jsonl"))
		return -1;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *why = why_unseen(kinds[i].program, refused);
		int bytes = snprintf(line, sizeof(line),
				     "{\"kind\":\"%s\",\"shown\":%s,\"why\":\"%s\"}\n",
				     kinds[i].name, why ? "false" : "true",
				     why ? why : not_known(kinds[i].kind));

		if (!jsonl_append(&file, line, bytes))
			break;
	}
	return jsonl_close(&file) ? 0 : -1;
}
