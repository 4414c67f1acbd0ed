/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Operation, flags and class of a request or bio; the class is that of the file its first page belongs to.
 */
#ifndef SEEKMETER_BLOCK_CLASS_H
#define SEEKMETER_BLOCK_CLASS_H

#include "block_state.h"

#define S_IFMT	0170000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define PAGE_MAPPING_FLAGS \
	3UL /* include/linux/page-flags.h: set for memory that belongs to no file */
#define BTRFS_SUPER_MAGIC 0x9123683E
/*
 * A tail page links to its head: the address, or a mask that makes it of the tail's own, since "mm: rework compound_head()
 * for power-of-2 sizeof(struct page)" (7.2 has it). No struct page lies this high, and no mask is less.
 */
#define LEAST_MASK	  (-(1ULL << 30))

static __always_inline enum block_op op_of(u32 cmd_flags)
{
	return block_ops[cmd_flags & (REQ_OP_NUMBERS - 1)];
}

static __always_inline u32 flags_of(u32 cmd_flags)
{
	return (cmd_flags & FLAG_BIT(__REQ_SYNC) ? BLOCK_FLAG_SYNC : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_META) ? BLOCK_FLAG_META : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_FUA) ? BLOCK_FLAG_FUA : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_PREFLUSH) ? BLOCK_FLAG_PREFLUSH : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_RAHEAD) ? BLOCK_FLAG_AHEAD : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_PRIO) ? BLOCK_FLAG_PRIO : 0);
}

/* The address of a tail page's head; 0: no tail page. */
static __always_inline u64 head_of(struct page *page, enum program program)
{
	u64 link;

	if (bpf_core_field_exists(struct page, compound_info))
		link = address_of((void *)page->compound_info, program);
	else
		link = address_of((void *)page->compound_head, program);
	if (!(link & 1))
		return 0;
	if (bpf_core_field_exists(struct page, compound_info) && link >= LEAST_MASK)
		return address_of(page, program) & link;
	return link - 1;
}

/* page: the page's address, or its head's */
static __always_inline u64 mapping_of(u64 page)
{
	return (u64)BPF_CORE_READ((struct page *)page, mapping);
}

/* Does a file system, swap or the like hold the block device? host: the device's own inode */
static __always_inline bool held(struct bio *bio, struct inode *host)
{
	struct bdev_inode *device;

	if (bpf_core_field_exists(struct bio, bi_bdev))
		return bio->bi_bdev->bd_holder;
	device = (void *)host - bpf_core_field_offset(struct bdev_inode, vfs_inode);
	return BPF_CORE_READ(device, bdev.bd_holder);
}

/* What a bio's first page tells. */
struct page_owner {
	u64 ino;
	u32 sb_dev;
	enum block_class class;
	bool is_above; /* of a file system, a program or a device above the disk: no layer's own page */
};

/* Is a file system of this device one of the disk's, or, with volumes, of any recorded device's? */
static __always_inline bool is_recorded(struct block_device *device, struct gendisk *disk)
{
	struct gendisk *other;

	if (!device)
		return false;
	other = BPF_CORE_READ(device, bd_disk);
	if (other == disk)
		return true;
	return have_volumes &&
	       find_dev(BPF_CORE_READ(other, major) << 20 | BPF_CORE_READ(other, first_minor));
}

/*
 * Class and inode of a request or bio, from the owner of its first page:
 *   META set                             metadata (ext's block device pages, XFS buffers, the btrfs tree inode)
 *   a regular file's page                data of that file
 *   a page of a regular file without     metadata: internal files (jfs's maps, nilfs2's DAT) that no program can
 *   read operations                      read
 *   of any other inode of the disk's     metadata: directories, symbolic links, and inodes without a mode (f2fs's
 *   file system                          nodes, jfs's direct_inode)
 *   a program's memory (direct I/O)      data, file not known
 *   a page of the device itself          metadata, if a file system (or mkfs) holds the device: ext's indirect
 *                                        blocks, inode read-ahead and superblock come without META
 *   anything else                        unknown
 *
 * flags: of the request, enum block_flag. program: the one that calls.
 */
static __always_inline void classify(struct page_owner *owner, u32 flags, struct bio *bio,
				     struct gendisk *disk, enum program program)
{
	struct page *page = bio->bi_io_vec->bv_page;
	u64 head, mapping_bits;
	struct address_space *mapping;
	struct inode *host;
	bool ours;
	u16 type;

	if (flags & BLOCK_FLAG_META) {
		owner->class = BLOCK_CLASS_METADATA;
		return;
	}
	head = head_of(page, program);
	mapping_bits = head ? mapping_of(head) : address_of(page->mapping, program);
	if (mapping_bits & PAGE_MAPPING_FLAGS) {
		owner->class = BLOCK_CLASS_DATA;
		owner->is_above = true;
		return;
	}
	if (!mapping_bits)
		return;
	mapping = (struct address_space *)mapping_bits;
	host = BPF_CORE_READ(mapping, host);
	/* A slab page has something else here: only a real mapping is its host's i_mapping. */
	if (!host || BPF_CORE_READ(host, i_mapping) != mapping)
		return;
	type = BPF_CORE_READ(host, i_mode) & S_IFMT;
	if (type == S_IFBLK) {
		if (held(bio, host))
			owner->class = BLOCK_CLASS_METADATA;
		if (have_volumes) {
			const volatile struct dev_entry *entry =
				find_dev(BPF_CORE_READ(host, i_rdev));

			owner->is_above = entry && entry->flags & DEV_VOLUME;
		}
		return;
	}
	ours = is_recorded(BPF_CORE_READ(host, i_sb, s_bdev), disk);
	owner->is_above = ours;
	if (type != S_IFREG ||
	    (ours && !BPF_CORE_READ(host, i_fop, read_iter) && !BPF_CORE_READ(host, i_fop, read))) {
		if (ours)
			owner->class = BLOCK_CLASS_METADATA;
		return;
	}
	owner->class = BLOCK_CLASS_DATA;
	/* Direct I/O out of another file's mapped pages would give that file's inode. */
	if (ours || BPF_CORE_READ(host, i_sb, s_magic) == BTRFS_SUPER_MAGIC) {
		owner->is_above = true;
		owner->ino = BPF_CORE_READ(host, i_ino);
		owner->sb_dev = BPF_CORE_READ(host, i_sb, s_dev);
	}
}

/*
 * The same for a bio without an origin. One sent to a part of a recorded volume is the layer's own, unless its page says
 * otherwise: bcache passes the file system's pages on without a remap. META says nothing there: md and bcache set it too.
 */
static __always_inline void classify_bottom(struct page_owner *owner, u32 flags, struct bio *bio,
					    struct gendisk *disk, bool has_pages,
					    enum program program)
{
	bool is_part = have_volumes && component_of(bio);

	if (has_pages)
		classify(owner, is_part ? flags & ~BLOCK_FLAG_META : flags, bio, disk, program);
	if (!is_part)
		return;
	if (!owner->is_above)
		*owner = (struct page_owner){ .class = BLOCK_CLASS_VOLUME };
	else if (flags & BLOCK_FLAG_META)
		owner->class = BLOCK_CLASS_METADATA;
}

#endif
