// SPDX-License-Identifier: BSD-2-Clause
/* Reasons of events by number or by address; see event_reasons.h. */
#include "event_reasons.h"

#include <bpf/btf.h>
#include <string.h>

#include "common/records.h"
#include "recorder/ksyms.h"

void reasons_of_writeback(const struct btf *btf, uint8_t *reasons)
{
	static const struct {
		const char *name;
		enum event_why why;
	} known[] = {
		{ "WB_REASON_BACKGROUND", EVENT_WHY_BACKGROUND },
		{ "WB_REASON_VMSCAN", EVENT_WHY_VMSCAN },
		{ "WB_REASON_SYNC", EVENT_WHY_SYNC },
		{ "WB_REASON_PERIODIC", EVENT_WHY_PERIODIC },
		{ "WB_REASON_LAPTOP_TIMER", EVENT_WHY_LAPTOP },
		{ "WB_REASON_FS_FREE_SPACE", EVENT_WHY_FS_FREE_SPACE },
		{ "WB_REASON_FOREIGN_FLUSH", EVENT_WHY_FOREIGN },
	};
	int id = btf__find_by_name_kind(btf, "wb_reason", BTF_KIND_ENUM);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;

	memset(reasons, EVENT_WHY_MORE, EVENT_REASONS);
	for (int i = 0; type && i < btf_vlen(type); i++) {
		const struct btf_enum *value = &btf_enum(type)[i];
		const char *name = btf__name_by_offset(btf, value->name_off);

		for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++)
			if (!strcmp(name, known[j].name) && (uint32_t)value->val < EVENT_REASONS)
				reasons[value->val] = known[j].why;
	}
}

/* A function's name without what the compiler appends to it (.isra.0, .constprop.0). */
static bool is_function(const char *symbol, const char *name)
{
	size_t bytes = strlen(name);

	return !strncmp(symbol, name, bytes) && (!symbol[bytes] || symbol[bytes] == '.');
}

bool is_log_push(uint64_t caller)
{
	uint64_t offset;
	const char *symbol = ksyms_symbol(caller, &offset);

	return symbol && !strncmp(symbol, "xlog_cil_push", strlen("xlog_cil_push"));
}

bool reason_of_force(uint64_t caller, enum event_why *why)
{
	static const struct {
		const char *name;
		enum event_why why;
	} known[] = {
		{ "xfs_file_fsync", EVENT_WHY_FSYNC },
		{ "xfs_fsync_flush_log", EVENT_WHY_FSYNC },
		{ "xfs_dir_fsync", EVENT_WHY_FSYNC },
		{ "xfs_fs_sync_fs", EVENT_WHY_SYNC },
		{ "xfs_quiesce_attr", EVENT_WHY_UMOUNT },
		{ "xfs_log_quiesce", EVENT_WHY_UMOUNT },
		{ "xfs_unmount_flush_inodes", EVENT_WHY_UMOUNT },
		{ "xfs_unmountfs", EVENT_WHY_UMOUNT },
		{ "xfs_log_worker", EVENT_WHY_TIMER },
		{ "xfsaild", EVENT_WHY_PINNED },
		{ "xfsaild_push", EVENT_WHY_PINNED },
		{ "xfs_buf_lock", EVENT_WHY_STALE },
		{ "__xfs_iunpin_wait", EVENT_WHY_PINNED },
		{ "xfs_iunpin", EVENT_WHY_PINNED },
		{ "xfs_trans_commit", EVENT_WHY_SYNCHRONOUS },
		{ "__xfs_trans_commit", EVENT_WHY_SYNCHRONOUS },
	};
	uint64_t offset;
	const char *symbol = ksyms_symbol(caller, &offset);

	*why = EVENT_WHY_UNKNOWN;
	if (!symbol)
		return true;
	if (is_function(symbol, "xfs_log_force") || is_function(symbol, "xfs_log_force_seq"))
		return false;
	*why = EVENT_WHY_ASKED;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_function(symbol, known[i].name))
			*why = known[i].why;
	if (!strncmp(symbol, "xfs_extent_busy", strlen("xfs_extent_busy")))
		*why = EVENT_WHY_STALE;
	if (!strncmp(symbol, "xfs_discard", strlen("xfs_discard")))
		*why = EVENT_WHY_DISCARD;
	return true;
}
