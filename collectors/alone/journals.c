// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where a journal lies; see journals.h.
 *
 * ext4 keeps a copy of the journal inode's block map in the superblock (s_jnl_blocks): an extent tree, or the block
 * numbers of ext3 (Documentation/filesystems/ext4/). XFS has its log in one piece (fs/xfs/libxfs/xfs_format.h of the kernel).
 */
#include "journals.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SUPER_BYTES   4096
#define MOST_BLOCK    65536
#define SECTOR_BYTES  512
#define EXT_SUPER     1024
#define EXT_MAGIC     0xef53
#define TREE_MAGIC    0xf30a
#define TREE_DEEPEST  3
#define HAS_JOURNAL   4 /* s_feature_compat */
#define INODE_BLOCKS  15
#define DIRECT_BLOCKS 12

struct journal {
	int fd, count;
	uint32_t block_bytes;
	struct extent *extents;
};

static uint16_t le16_at(const unsigned char *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return le16toh(value);
}

static uint32_t le32_at(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

static uint32_t be32_at(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

/* Adds so many blocks; those that follow the last extent extend it. False: there are too many extents. */
static bool add_blocks(struct journal *journal, uint64_t block, uint64_t blocks)
{
	uint64_t sectors = journal->block_bytes / SECTOR_BYTES;
	struct extent *last = journal->count ? &journal->extents[journal->count - 1] : NULL;

	if (last && last->end == block * sectors) {
		last->end += blocks * sectors;
		return true;
	}
	if (journal->count == MOST_EXTENTS)
		return false;
	journal->extents[journal->count++] =
		(struct extent){ block * sectors, (block + blocks) * sectors };
	return true;
}

static bool add_tree(struct journal *journal, const unsigned char *node, size_t bytes,
		     int depth_most)
{
	unsigned int entries = le16_at(node + 2), depth = le16_at(node + 6);
	unsigned char child[MOST_BLOCK];

	if (le16_at(node) != TREE_MAGIC || depth > (unsigned int)depth_most ||
	    12 + entries * 12 > bytes)
		return false;
	for (unsigned int i = 0; i < entries; i++) {
		const unsigned char *entry = node + 12 + i * 12;
		uint64_t block;

		if (!depth) {
			block = (uint64_t)le16_at(entry + 6) << 32 | le32_at(entry + 8);
			if (!add_blocks(journal, block, le16_at(entry + 4)))
				return false;
			continue;
		}
		block = (uint64_t)le16_at(entry + 8) << 32 | le32_at(entry + 4);
		if (pread(journal->fd, child, journal->block_bytes,
			  (off_t)(block * journal->block_bytes)) != (ssize_t)journal->block_bytes ||
		    !add_tree(journal, child, journal->block_bytes, (int)depth - 1))
			return false;
	}
	return true;
}

/* The block map of ext3: of 12 blocks, then of trees of block numbers. */
static bool add_map(struct journal *journal, const unsigned char *numbers, int count, int depth)
{
	unsigned char child[MOST_BLOCK];

	for (int i = 0; i < count; i++) {
		uint32_t block = le32_at(numbers + i * 4);

		if (!block)
			continue;
		if (!depth) {
			if (!add_blocks(journal, block, 1))
				return false;
		} else if (pread(journal->fd, child, journal->block_bytes,
				 (off_t)block * journal->block_bytes) !=
				   (ssize_t)journal->block_bytes ||
			   !add_map(journal, child, (int)journal->block_bytes / 4, depth - 1)) {
			return false;
		}
	}
	return true;
}

static int read_ext(struct journal *journal, const unsigned char *super)
{
	const unsigned char *blocks = super + 0x10c;
	uint32_t log_block = le32_at(super + 0x18);

	if (le16_at(super + 0x38) != EXT_MAGIC || log_block > 6)
		return -1;
	if (!(le32_at(super + 0x5c) & HAS_JOURNAL) || !le32_at(super + 0xe0))
		return 0;
	journal->block_bytes = 1024U << log_block;
	if (super[0xfd] != 1) /* s_jnl_backup_type: no copy of the map */
		return -1;
	if (le16_at(blocks) == TREE_MAGIC)
		return add_tree(journal, blocks, INODE_BLOCKS * 4UL, TREE_DEEPEST) ? journal->count
										   : -1;
	for (int i = DIRECT_BLOCKS; i <= INODE_BLOCKS; i++)
		if (!add_map(journal, i == DIRECT_BLOCKS ? blocks : blocks + (i - 1) * 4UL,
			     i == DIRECT_BLOCKS ? DIRECT_BLOCKS : 1, i - DIRECT_BLOCKS))
			return -1;
	return journal->count;
}

static int read_xfs(struct journal *journal, const unsigned char *super)
{
	uint64_t start = (uint64_t)be32_at(super + 48) << 32 | be32_at(super + 52);
	uint32_t group_blocks = be32_at(super + 84), blocks = be32_at(super + 96);
	unsigned int group_bits = super[124];

	journal->block_bytes = be32_at(super + 4);
	if (memcmp(super, "XFSB", 4) != 0 || group_bits > 31 || journal->block_bytes < 512 ||
	    journal->block_bytes > MOST_BLOCK)
		return -1;
	if (!start)
		return 0; /* an external log */
	start = (start >> group_bits) * group_blocks + (start & ((1ULL << group_bits) - 1));
	return add_blocks(journal, start, blocks) ? journal->count : -1;
}

static int open_device(const struct device *device)
{
	char path[PATH_MOST], dev[32];
	struct stat status;
	int fd;

	if (!path_of(path, "/dev/%s", device->name))
		return -1;
	for (char *c = path; *c; c++)
		if (*c == '!')
			*c = '/';
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	/* Another node may have this name. */
	if (!fstat(fd, &status) && S_ISBLK(status.st_mode)) {
		path_of(path, "%u:%u", major(status.st_rdev), minor(status.st_rdev));
		memcpy(dev, path, sizeof(dev));
		if (!strncmp(dev, device->dev, sizeof(dev)))
			return fd;
	}
	close(fd);
	return -1;
}

int journal_read(const struct device *device, const char *kind, struct extent extents[MOST_EXTENTS])
{
	struct journal journal = { .extents = extents };
	bool is_xfs = !strcmp(kind, "xfs");
	unsigned char super[SUPER_BYTES];
	int count = -1;

	if (!is_xfs && strcmp(kind, "ext3") != 0 && strcmp(kind, "ext4") != 0)
		return 0;
	journal.fd = open_device(device);
	if (journal.fd < 0)
		return -1;
	if (pread(journal.fd, super, sizeof(super), 0) == sizeof(super))
		count = is_xfs ? read_xfs(&journal, super) : read_ext(&journal, super + EXT_SUPER);
	close(journal.fd);
	return count;
}
