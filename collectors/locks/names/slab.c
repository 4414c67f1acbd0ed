// SPDX-License-Identifier: BSD-2-Clause
/*
 * The struct in a slab cache's objects, guessed from the cache's name.
 *
 * The kernel has no record of the struct, but most caches are named after it. A guess is right if the struct has the
 * cache's size and a lock of this kind at the lock's offset. The kernel merges caches of one size under one name; the
 * other names are links in /sys/kernel/slab. Then a guess must be right for exactly one of the names.
 */
#include "slab.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLAB_FOLDER "/sys/kernel/slab"
#define SPARE_BYTES \
	136 /* an object may be this much larger than its struct: alignment, the list of free ones */
#define MAX_TYPES  8
#define MAX_GROUPS 2048
#define MAX_OWNERS 2048

/* Caches whose struct does not follow from their name by a rule. */
static const struct {
	const char *slab, *type; /* type "": has no locks */
} known[] = {
	{ "inode_cache", "inode" },
	{ "ext2_inode_cache", "ext2_inode_info" },
	{ "jfs_ip", "jfs_inode_info" },
	{ "reiser_inode_cache", "reiserfs_inode_info" },
	{ "nilfs2_inode_cache", "nilfs_inode_info" },
	{ "sock_inode_cache", "socket_alloc" },
	{ "bdev_cache", "bdev_inode" },
	{ "isofs_inode_cache", "iso_inode_info" },
	{ "fat_inode_cache", "msdos_inode_info" },
	{ "ovl_inode", "ovl_inode" },
	{ "tracefs_inode_cache", "tracefs_inode" },
	{ "debugfs_inode_cache", "debugfs_inode_info" },
	{ "filp", "file" },
	{ "bfilp", "file" },
	{ "mnt_cache", "mount" },
	{ "net_namespace", "net" },
	{ "uid_cache", "user_struct" },
	{ "key_jar", "key" },
	{ "cred_jar", "cred" },
	{ "pid_2", "pid" },
	{ "blkdev_ioc", "io_context" },
	{ "blkdev_queue", "request_queue" },
	{ "radix_tree_node", "xa_node" },
	{ "TCP", "tcp_sock" },
	{ "TCPv6", "tcp6_sock" },
	{ "UDP", "udp_sock" },
	{ "UDP-Lite", "udp_sock" },
	{ "UDPv6", "udp6_sock" },
	{ "UDPLITEv6", "udp6_sock" },
	{ "RAW", "raw_sock" },
	{ "RAWv6", "raw6_sock" },
	{ "UNIX", "unix_sock" },
	{ "UNIX-STREAM", "unix_sock" },
	{ "PING", "inet_sock" },
	{ "skbuff_head_cache", "sk_buff" },
	{ "skbuff_fclone_cache", "sk_buff_fclones" },
	{ "eventpoll_epi", "epitem" },
	{ "eventpoll_pwq", "eppoll_entry" },
	{ "ext4_groupinfo_1k", "ext4_group_info" },
	{ "ext4_groupinfo_2k", "ext4_group_info" },
	{ "ext4_groupinfo_4k", "ext4_group_info" },
	{ "jbd2_journal_handle", "jbd2_journal_handle" },
	{ "xfs_log_ticket", "xlog_ticket" },
	{ "xfs_ili", "xfs_inode_log_item" },
	{ "xfs_buf_item", "xfs_buf_log_item" },
	{ "sgpool-8", "" },
	{ "sgpool-16", "" },
	{ "sgpool-32", "" },
	{ "sgpool-64", "" },
	{ "sgpool-128", "" },
	{ "biovec-16", "" },
	{ "biovec-64", "" },
	{ "biovec-128", "" },
	{ "biovec-max", "" },
	{ "jbd2_1k", "" },
	{ "jbd2_2k", "" },
};

/* The end of a cache's name, and the end of its struct's name instead. */
static const struct {
	const char *slab, *type;
} endings[] = {
	{ "_cache", "_info" },
	{ "_cache", "_struct" },
	{ "_cache", "" },
	{ "_cachep", "" },
	{ "", "" },
	{ "", "_struct" },
	{ "", "_info" },
};

static struct group {
	char name[64], target[64];
} groups[MAX_GROUPS];
static int group_count;
static struct type owners[MAX_OWNERS]; /* structs that have a cache of their own */
static int owner_count;

void slabs_unload(void)
{
	group_count = owner_count = 0;
}

bool slab_is_kmalloc(const char *slab)
{
	return !strncmp(slab, "kmalloc-", 8) || !strncmp(slab, "dma-kmalloc-", 12);
}

static int fitting(const char *name, uint32_t bytes, uint32_t spare, struct type *found)
{
	struct type types[MAX_TYPES];
	int count = types_find(name, BTF_KIND_STRUCT, types, MAX_TYPES), kept = 0;

	for (int i = 0; i < count; i++) {
		uint32_t size = types_bytes(types[i]);

		if (size && size <= bytes && bytes - size <= spare)
			found[kept++] = types[i];
	}
	return kept;
}

/* The structs that the cache may be named after; -1: none is known. */
static int types_of(const char *slab, uint32_t bytes, struct type *found)
{
	const char *rest = strchr(slab, '_');
	size_t length = strlen(slab);
	int count;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(slab, known[i].slab))
			continue;
		if (!known[i].type[0])
			return 0;
		/* Objects of some caches have more room behind the struct. */
		count = fitting(known[i].type, bytes, bytes, found);
		return count ? count : -1;
	}
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t end = strlen(endings[i].slab);
		bool same = !end && !endings[i].type[0];
		char name[128];

		if (length < end || length > 64 || strcmp(slab + length - end, endings[i].slab))
			continue;
		snprintf(name, sizeof(name), "%.*s%s", (int)(length - end), slab, endings[i].type);
		count = fitting(name, bytes, same ? bytes : SPARE_BYTES, found);
		/* jbd2_journal_head, btrfs_extent_buffer: without the file system's name in front. */
		if (!count && rest) {
			snprintf(name, sizeof(name), "%.*s%s",
				 (int)(length - end - (rest + 1 - slab)), rest + 1,
				 endings[i].type);
			count = fitting(name, bytes, SPARE_BYTES, found);
		}
		if (count)
			return count;
	}
	return -1;
}

static uint32_t object_bytes(const char *slab)
{
	char path[512];
	unsigned bytes = 0;
	FILE *in;

	snprintf(path, sizeof(path), SLAB_FOLDER "/%s/object_size", slab);
	in = fopen(path, "r");
	if (in && fscanf(in, "%u", &bytes) != 1)
		bytes = 0;
	if (in)
		fclose(in);
	return bytes;
}

/* Lists all structs that have a cache. */
static void find_owners(void)
{
	DIR *dir = opendir(SLAB_FOLDER);
	struct dirent *entry;

	owner_count = 0;
	while (dir && (entry = readdir(dir))) {
		struct type found[MAX_TYPES];
		int count;

		if (entry->d_name[0] == '.' || entry->d_name[0] == ':' ||
		    slab_is_kmalloc(entry->d_name))
			continue;
		count = types_of(entry->d_name, object_bytes(entry->d_name), found);
		for (int i = 0; i < count && owner_count < MAX_OWNERS; i++)
			owners[owner_count++] = found[i];
	}
	if (dir)
		closedir(dir);
}

void slabs_load(void)
{
	DIR *dir = opendir(SLAB_FOLDER);
	struct dirent *entry;

	group_count = 0;
	while (dir && group_count < MAX_GROUPS && (entry = readdir(dir))) {
		struct group *group = &groups[group_count];
		char path[512];
		ssize_t n;

		snprintf(path, sizeof(path), SLAB_FOLDER "/%s", entry->d_name);
		n = readlink(path, group->target, sizeof(group->target) - 1);
		if (n <= 0 || strlen(entry->d_name) >= sizeof(group->name))
			continue;
		group->target[n] = 0;
		strcpy(group->name, entry->d_name);
		group_count++;
	}
	if (dir)
		closedir(dir);
	find_owners();
}

bool slab_has_own(struct type type)
{
	for (int i = 0; i < owner_count; i++)
		if (!strcmp(types_name(owners[i]), types_name(type)))
			return true;
	return false;
}

static bool same_cache(const char *a, const char *b)
{
	const char *target = NULL;

	if (!strcmp(a, b))
		return true;
	for (int i = 0; i < group_count; i++)
		if (!strcmp(groups[i].name, a))
			target = groups[i].target;
	for (int i = 0; target && i < group_count; i++)
		if (!strcmp(groups[i].name, b))
			return !strcmp(groups[i].target, target);
	return false;
}

/* Adds the answer from one name of the cache. False: there are several answers now, or the name is not known. */
static bool add_answer(const char *slab, uint32_t bytes, uint32_t offset, int kind,
		       struct lock_member *found, bool *have)
{
	struct type types[MAX_TYPES];
	struct lock_member member;
	int count = types_of(slab, bytes, types);

	if (count < 0)
		return false;
	for (int i = 0; i < count; i++) {
		if (!member_lock_at(types[i], offset, kind, &member))
			continue;
		if (*have && strcmp(member.name, found->name))
			return false;
		*found = member;
		*have = true;
	}
	return true;
}

static bool lock_at(const struct lock_object *object, uint32_t offset, int kind,
		    struct lock_member *found)
{
	bool have = false;

	if (!object->merged)
		return add_answer(object->slab, object->object_bytes, offset, kind, found, &have) &&
		       have;
	for (int i = 0; i < group_count; i++)
		if (same_cache(object->slab, groups[i].name) &&
		    !add_answer(groups[i].name, object->object_bytes, offset, kind, found, &have))
			return false;
	return have;
}

bool slab_lock(const struct lock_object *object, int kind, struct lock_member *found)
{
	if (!object->slab[0] || slab_is_kmalloc(object->slab))
		return false;
	return lock_at(object, object->offset, kind, found) ||
	       (object->other_offset != object->offset &&
		lock_at(object, object->other_offset, kind, found));
}

void slabs_note_inodes(int map_fd)
{
	FILE *in = fopen("/proc/slabinfo", "r");
	char line[512], name[64];
	unsigned bytes;

	while (in && fgets(line, sizeof(line), in)) {
		char key[LOCK_SLAB_NAME] = { 0 };
		struct type types[MAX_TYPES];
		uint32_t offset;

		if (sscanf(line, "%63s %*u %*u %u", name, &bytes) != 2 ||
		    strlen(name) >= sizeof(key) || types_of(name, bytes, types) <= 0 ||
		    !types_embedded(types[0], "inode", &offset))
			continue;
		strcpy(key, name);
		/* No room: inodes of further caches get no number. */
		if (bpf_map_update_elem(map_fd, key, &offset, BPF_ANY))
			break;
	}
	if (in)
		fclose(in);
}
