/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What a lock lies in: the slab cache of its object, and where in the object. */
#ifndef SEEKMETER_LOCK_OBJECTS_H
#define SEEKMETER_LOCK_OBJECTS_H

#include "records.h"

#define OBJECT_LOCKS 16384

const volatile bool have_kmem_cache; /* the kernel has bpf_get_kmem_cache() (6.14) */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OBJECT_LOCKS);
	__type(key, u64);
	__type(value, struct lock_object);
} objects SEC(".maps");

extern struct kmem_cache *bpf_get_kmem_cache(u64 addr) __ksym __weak;

/* The lock is held now, so the object it is in can't go away. */
static __always_inline void note_object(u64 lock)
{
	struct lock_object object = {};
	struct kmem_cache *cache;

	if (!have_kmem_cache || bpf_map_lookup_elem(&objects, &lock))
		return;
	cache = bpf_get_kmem_cache(lock);
	if (cache)
		bpf_probe_read_kernel_str(object.slab, sizeof(object.slab), cache->name);
	bpf_map_update_elem(&objects, &lock, &object, BPF_ANY);
}

#endif
