/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Writeback by the flushers, round by round, with its reason; block-device inodes and large inodes within a round; pauses
 * of writers; bytes that become dirty.
 *
 * A round of a flusher belongs to a disk. Its file system is that of the work, or of the first inode that it writes.
 */
#ifndef SEEKMETER_EVENT_WRITEBACK_H
#define SEEKMETER_EVENT_WRITEBACK_H

#include "event_state.h"

#define S_IFMT	      0170000
#define S_IFREG	      0100000
#define BDEVFS_MAGIC  0x62646576 /* linux/magic.h: inodes of block devices */
#define INODE_PAGES   64	 /* an inode with so many pages written has a row */
#define INODE_NS      1000000ULL /* so has one that took so long */
#define ASKERS	      1024
#define ASKER_MOST_NS 10000000000ULL

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
const volatile u8 reasons[EVENT_REASONS]; /* enum event_why, by enum wb_reason of this kernel */
const volatile bool have_more_targets;

/* Set by the recorder as it empties bins. */
volatile u64 drained_to;
/* super_block.s_dev of the file system under test; 0: none. Set by the recorder. */
volatile u32 target_dev;
struct bin_epoch epochs[BIN_CPUS];
struct bin_cuts cuts;

/* super_block.s_dev of file systems under test other than target_dev. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* resized */
	__type(key, u32);
	__type(value, u8);
} more_targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: CPUs x DIRTIED_BIN_SLOTS */
	__type(key, u32);
	__type(value, struct dirtied_cell);
} dirtied_cells SEC(".maps");

/* Who queued a work that a flusher will do, by the work's address. */
struct work_asker {
	u64 queued_ns;
	u32 tid;
	u32 reason;
	enum call_name call;
	u8 pad[7];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, ASKERS);
	__type(key, u64);
	__type(value, struct work_asker);
} work_askers SEC(".maps");

static __always_inline u32 disk_of(struct bdi_writeback *wb)
{
	struct device *owner = BPF_CORE_READ(wb, bdi, owner);

	return owner ? BPF_CORE_READ(owner, devt) : 0;
}

SEC("tp_btf/writeback_queue")
int BPF_PROG(writeback_queue, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	u64 key = (u64)work;
	struct work_asker asker = { .queued_ns = bpf_ktime_get_ns(),
				    .tid = this_tid(),
				    .reason = BPF_CORE_READ(work, reason),
				    .call = call_of(my_context()) };

	bpf_map_update_elem(&work_askers, &key, &asker, BPF_ANY);
	return 0;
}

SEC("tp_btf/writeback_start")
int BPF_PROG(writeback_start, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)work;
	u32 reason = BPF_CORE_READ(work, reason);
	struct super_block *sb = BPF_CORE_READ(work, sb);
	struct work_asker *asker = bpf_map_lookup_elem(&work_askers, &key);
	enum event_why why = reason < EVENT_REASONS ? reasons[reason & (EVENT_REASONS - 1)]
						    : EVENT_WHY_MORE;
	struct open_event *open =
		begin_event(EVENT_KIND_WRITEBACK, why, sb ? dev_of_sb(sb) : disk_of(wb), now);

	if (!open)
		return 0;
	open->subject = sb != NULL; /* the file system is known */
	/* The address is on a stack, and another work's later. */
	if (asker && asker->reason == reason && now - asker->queued_ns < ASKER_MOST_NS) {
		open->message.record.asker_tid = asker->tid;
		open->message.record.asker_call = asker->call;
	}
	enter_event(open);
	return 0;
}

SEC("tp_btf/writeback_written")
int BPF_PROG(writeback_written)
{
	struct open_event *open = find_event(EVENT_KIND_WRITEBACK);

	if (!open)
		return 0;
	if (!open->message.record.count)
		open->is_recorded = false; /* the flusher looked, and found nothing */
	open->message.record.bytes = open->message.record.pages << BYTES_A_PAGE_SHIFT;
	end_event(open, bpf_ktime_get_ns());
	return 0;
}

static __always_inline bool is_bdev(struct inode *inode)
{
	return BPF_CORE_READ(inode, i_sb, s_magic) == BDEVFS_MAGIC;
}

SEC("tp_btf/writeback_single_inode_start")
int BPF_PROG(writeback_inode_start, struct inode *inode)
{
	struct open_event *round = find_event(EVENT_KIND_WRITEBACK), *flush;
	u64 now;

	if (!round)
		return 0; /* in the caller of fsync or the like */
	now = bpf_ktime_get_ns();
	round->inode_ns = now;
	if (!is_bdev(inode)) {
		if (!round->subject) {
			round->message.record.dev = dev_of_sb(BPF_CORE_READ(inode, i_sb));
			round->subject = true;
		}
		return 0;
	}
	flush = begin_event(EVENT_KIND_BDEV_FLUSH, round->message.record.why,
			    BPF_CORE_READ(inode, i_rdev), now);
	if (!flush)
		return 0;
	flush->message.record.asker_tid = round->message.record.asker_tid;
	flush->message.record.asker_call = round->message.record.asker_call;
	enter_event(flush);
	return 0;
}

/* A row of its own for an inode that stands out; all are in their round's sums. */
static __always_inline void add_inode(struct open_event *round, struct inode *inode, u64 wrote,
				      u64 now)
{
	struct event_message message;

	if (wrote < INODE_PAGES && now - round->inode_ns < INODE_NS)
		return;
	if (!make_point(&message, EVENT_KIND_WRITEBACK_INODE, round->message.record.why,
			dev_of_sb(BPF_CORE_READ(inode, i_sb))))
		return;
	message.record.start_ns = round->inode_ns;
	message.record.end_ns = now;
	message.record.parent_id = round->message.record.event_id;
	message.record.asker_tid = round->message.record.asker_tid;
	message.record.asker_call = round->message.record.asker_call;
	message.record.ino = BPF_CORE_READ(inode, i_ino);
	message.record.pages = wrote;
	message.record.bytes = wrote << BYTES_A_PAGE_SHIFT;
	send(&message);
}

SEC("tp_btf/writeback_single_inode")
int BPF_PROG(writeback_inode, struct inode *inode, struct writeback_control *wbc,
	     unsigned long to_write)
{
	struct open_event *round = find_event(EVENT_KIND_WRITEBACK), *flush;
	s64 wrote = to_write - BPF_CORE_READ(wbc, nr_to_write);
	u64 now;

	if (!round)
		return 0;
	if (wrote < 0)
		wrote = 0;
	now = bpf_ktime_get_ns();
	round->message.record.pages += wrote;
	round->message.record.count++;
	flush = is_bdev(inode) ? find_event(EVENT_KIND_BDEV_FLUSH) : NULL;
	if (flush) {
		flush->message.record.pages = wrote;
		flush->message.record.bytes = (u64)wrote << BYTES_A_PAGE_SHIFT;
		end_event(flush, now);
	} else if (round->inode_ns) {
		add_inode(round, inode, wrote, now);
	}
	return 0;
}

/* Before each pause of a writer. Its end has no tracepoint: end_ns is when the pause is to end. */
static __always_inline int throttle(struct bdi_writeback *wb, u64 pages, s64 pause)
{
	struct event_message message;

	if (pause <= 0 ||
	    !make_point(&message, EVENT_KIND_DIRTY_THROTTLE, EVENT_WHY_NONE, disk_of(wb)))
		return 0;
	message.record.end_ns += pause * jiffy_ns;
	message.record.pages = pages;
	message.record.bytes = pages << BYTES_A_PAGE_SHIFT;
	send(&message);
	return 0;
}

SEC("tp_btf/balance_dirty_pages")
int writeback_throttle(u64 *ctx)
{
	return throttle((void *)ctx[0], ctx[4], ctx[6]);
}

/* The same with twelve arguments, before they were put into a dirty_throttle_control. */
SEC("tp_btf/balance_dirty_pages")
int writeback_throttle_12(u64 *ctx)
{
	return throttle((void *)ctx[0], ctx[8], ctx[10]);
}

static __always_inline bool is_target(u32 dev)
{
	return dev == target_dev || (have_more_targets && bpf_map_lookup_elem(&more_targets, &dev));
}

static __always_inline void add_dirtied(u64 pages)
{
	u32 cpu = bpf_get_smp_processor_id(), index;
	struct bin_epoch *epoch = &epochs[cpu & (BIN_CPUS - 1)];
	struct dirtied_cell *cell;
	struct event_counts *count;
	u64 bin;

	if (is_over)
		return;
	*(volatile u64 *)&epoch->count += 1;
	bin = bin_of(&cuts, bin_ns, bpf_ktime_get_ns());
	index = cpu * DIRTIED_BIN_SLOTS + bin % DIRTIED_BIN_SLOTS;
	cell = bpf_map_lookup_elem(&dirtied_cells, &index);
	if (cell && bin - drained_to < DIRTIED_BIN_SLOTS) {
		cell->folios++;
		cell->bytes += pages << BYTES_A_PAGE_SHIFT;
		if (pages > 1)
			cell->large_folio_bytes += pages << BYTES_A_PAGE_SHIFT;
	} else {
		count = my_counts();
		if (count)
			count->dirtied_late++;
	}
	*(volatile u64 *)&epoch->count += 1;
}

enum pageflags {
	PG_head = 6,
};

static __always_inline u64 pages_of(struct folio *folio)
{
	u64 flags;

	if (bpf_core_field_exists(struct folio___6_18, flags.f))
		flags = ((struct folio___6_18 *)folio)->flags.f;
	else
		flags = folio->flags;
	if (!(flags & 1UL << bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(struct folio, _nr_pages))
		return folio->_nr_pages;
	if (bpf_core_field_exists(struct folio___6_12, _folio_nr_pages))
		return ((struct folio___6_12 *)folio)->_folio_nr_pages;
	return 1;
}

/* Is this a file of the file system under test that programs can read? Btrfs and others keep metadata in files, too. */
static __always_inline bool is_counted(struct address_space *mapping)
{
	struct inode *inode;

	if (!mapping)
		return false;
	inode = mapping->host;
	return inode && (inode->i_mode & S_IFMT) == S_IFREG && is_target(inode->i_sb->s_dev) &&
	       inode->i_fop->read_iter;
}

/* Hot: each folio that becomes dirty. */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(dirtied_folio, struct folio *folio, struct address_space *mapping)
{
	if (is_counted(mapping))
		add_dirtied(pages_of(folio));
	return 0;
}

/* The same before folios. */
SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(dirtied_page, struct page *page, struct address_space *mapping)
{
	if (is_counted(mapping))
		add_dirtied(1);
	return 0;
}

#endif
