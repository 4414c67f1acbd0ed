/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The object that a lock lies in: slab cache, offset of the lock, and of an inode its number.
 *
 * The cache comes from bpf_get_kmem_cache() (6.14), else from the lock's struct page, whose address is known where
 * /proc/kallsyms lists data. With the page the slab's begin is exact. With the function the begin is the address
 * rounded down to the cache's usual slab size: slabs are aligned to it, but a kernel short of memory makes slabs of the
 * smaller size `min`. An inode decides which of the two it is (it holds its own address). Else both offsets are
 * recorded, and user space takes the second one if no lock can be at the first.
 */
#ifndef SEEKMETER_LOCK_OBJECT_H
#define SEEKMETER_LOCK_OBJECT_H

#include "common/records.h"

#define OBJECT_LOCKS 32768
#define INODE_CACHES 256
#define PAGE_SHIFT   12 /* x86-64; elsewhere the page of a lock is not looked up */
#define OO_SHIFT     16 /* mm/slub.c: order above, number of objects below */

const volatile struct lock_object_lookups object_lookups; /* set before loading */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECT_LOCKS);
	__type(key, u64);
	__type(value, struct lock_object);
} objects SEC(".maps");

/* By the cache's name: offset of struct inode in its objects. Filled by user space. */
struct slab_name {
	char text[LOCK_SLAB_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INODE_CACHES);
	__type(key, struct slab_name);
	__type(value, u32);
} inode_caches SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kmem_cache_order_objects {
	u32 x;
};

/* CO-RE ignores ___ and what follows in a type's name. */
struct kmem_cache___objects {
	const char *name;
	u32 size; /* from one object to the next */
	u32 object_size;
	struct kmem_cache_order_objects oo, min;
	u32 red_left_pad; /* CONFIG_SLUB_DEBUG */
	int refcount;
};

struct slab {
	struct kmem_cache___objects *slab_cache;
};

struct page___flags {
	unsigned long flags;
	unsigned int page_type;
	unsigned long compound_head;
};

struct inode___data {
	unsigned long i_ino;
	struct super_block *i_sb;
	struct address_space i_data;
};

#pragma clang attribute pop

enum pageflags {
	PG_slab = 9,
};

enum pagetype {
	PGTY_slab = 0xf5,
};

#define PAGE_TYPE_SHIFT 24 /* linux/page-flags.h */

extern struct kmem_cache *bpf_get_kmem_cache(u64 addr) __ksym __weak;

static __always_inline u64 kernel_u64(u64 from)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)from);
	return value;
}

/*
 * Does this head page begin a slab? A page flag marked slabs until Linux kernel commit 46df8e73a4a3 ("mm: free up
 * PG_slab") (in v6.10); the type it became is a number of its own since 4ffca5a96678 ("mm: support only one page_type
 * per page") (in v6.12). Between the two the type was one bit of several, whose position is not in the kernel's types.
 */
static __always_inline bool begins_slab(u64 page)
{
	u64 flags = 0;
	u32 type = 0;

	if (bpf_core_enum_value_exists(enum pagetype, PGTY_slab)) {
		bpf_core_read(&type, sizeof(type), &((struct page___flags *)page)->page_type);
		return type >> PAGE_TYPE_SHIFT == bpf_core_enum_value(enum pagetype, PGTY_slab);
	}
	if (!bpf_core_enum_value_exists(enum pageflags, PG_slab))
		return false;
	bpf_core_read(&flags, sizeof(flags), &((struct page___flags *)page)->flags);
	return flags & (1UL << bpf_core_enum_value(enum pageflags, PG_slab));
}

/* The cache of the slab that contains the address, and the slab's begin; NULL: it is in no slab. */
static __always_inline struct kmem_cache___objects *cache_by_page(u64 address, u64 *slab_begin)
{
	u64 vmemmap, direct, head = 0, page;
	struct kmem_cache___objects *cache = NULL;

	if (!object_lookups.vmemmap_base || !object_lookups.page_offset_base ||
	    !object_lookups.vmalloc_base ||
	    !bpf_core_field_exists(struct page___flags, compound_head))
		return NULL;
	vmemmap = kernel_u64(object_lookups.vmemmap_base);
	direct = kernel_u64(object_lookups.page_offset_base);
	if (!vmemmap || !direct || address < direct ||
	    address >= kernel_u64(object_lookups.vmalloc_base))
		return NULL;
	page = vmemmap +
	       ((address - direct) >> PAGE_SHIFT) * bpf_core_type_size(struct page___flags);
	bpf_core_read(&head, sizeof(head), &((struct page___flags *)page)->compound_head);
	if (head & 1)
		page = head - 1;
	if (!begins_slab(page))
		return NULL;
	bpf_core_read(&cache, sizeof(cache), &((struct slab *)page)->slab_cache);
	*slab_begin =
		direct + ((page - vmemmap) / bpf_core_type_size(struct page___flags) << PAGE_SHIFT);
	return cache;
}

/* Records the inode at this address and its number; false: there is none. */
static __always_inline bool note_inode(struct lock_object *object, u64 address)
{
	struct inode___data *inode = (void *)address;
	struct inode *host = NULL;
	unsigned long ino = 0;
	struct super_block *sb = NULL;
	u32 dev = 0;

	if (bpf_core_read(&host, sizeof(host), &inode->i_data.host) || (u64)host != address)
		return false;
	bpf_core_read(&ino, sizeof(ino), &inode->i_ino);
	bpf_core_read(&sb, sizeof(sb), &inode->i_sb);
	if (bpf_core_read(&dev, sizeof(dev), &sb->s_dev))
		return false;
	if (!object->inode) {
		object->ino = ino;
		object->dev = dev;
	} else if (object->last_ino != ino) {
		object->several++;
	}
	object->inode = address;
	object->last_ino = ino;
	return true;
}

static __always_inline u32 offset_in_object(u64 from_begin, u32 size, u32 left_pad)
{
	return size ? (u32)from_begin % size - left_pad : 0;
}

static __always_inline void read_object(struct lock_object *object, const u64 *of)
{
	struct kmem_cache___objects *cache;
	struct slab_name name = {};
	u32 size = 0, left_pad = 0, usual = 0, smaller = 0, *inode_at;
	int refcount = 0;
	u64 slab_begin = 0;
	const char *text = NULL;
	/*
	 * The verifier may take it for a pointer to a mutex and allow no arithmetic; a value read by a helper is a
	 * number.
	 */
	u64 lock = kernel_u64((u64)of);

	if (object_lookups.kmem_cache)
		cache = (struct kmem_cache___objects *)bpf_get_kmem_cache(lock);
	else
		cache = cache_by_page(lock, &slab_begin);
	if (!cache)
		return;
	bpf_core_read(&text, sizeof(text), &cache->name);
	bpf_probe_read_kernel_str(name.text, sizeof(name.text), text);
	bpf_core_read(&size, sizeof(size), &cache->size);
	bpf_core_read(&object->object_bytes, sizeof(object->object_bytes), &cache->object_size);
	bpf_core_read(&refcount, sizeof(refcount), &cache->refcount);
	if (bpf_core_field_exists(cache->red_left_pad))
		bpf_core_read(&left_pad, sizeof(left_pad), &cache->red_left_pad);
	__builtin_memcpy(object->slab, name.text, sizeof(object->slab));
	object->place_bytes = size;
	object->merged = refcount > 1;
	if (slab_begin) {
		object->offset = offset_in_object(lock - slab_begin, size, left_pad);
		object->other_offset = object->offset;
	} else {
		bpf_core_read(&usual, sizeof(usual), &cache->oo);
		bpf_core_read(&smaller, sizeof(smaller), &cache->min);
		usual = ((1UL << PAGE_SHIFT) << (usual >> OO_SHIFT)) - 1;
		smaller = ((1UL << PAGE_SHIFT) << (smaller >> OO_SHIFT)) - 1;
		object->offset = offset_in_object(lock & usual, size, left_pad);
		object->other_offset = offset_in_object(lock & smaller, size, left_pad);
	}
	inode_at = bpf_map_lookup_elem(&inode_caches, &name);
	if (!inode_at)
		return;
	if (!note_inode(object, lock - object->offset + *inode_at) &&
	    note_inode(object, lock - object->other_offset + *inode_at))
		object->offset = object->other_offset;
}

/*
 * Records the lock's object, once per lock. The lock is held now, so its object can't go away. An inode is read again
 * each time: its memory may be another inode's by now.
 */
static __always_inline void note_object(u64 lock)
{
	struct lock_object *known = bpf_map_lookup_elem(&objects, &lock), object = {};

	if (known) {
		if (known->inode)
			note_inode(known, known->inode);
		return;
	}
	read_object(&object, &lock);
	bpf_map_update_elem(&objects, &lock, &object, BPF_ANY);
}

#endif
