/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sums of time bins in hash maps: one map per slot, so that the recorder empties a bin without touching the others.
 *
 * BIN_MAPS(name, …) defines the array of maps, and struct NAME_slot, the type of the maps in it. The recorder creates these
 * maps with as many entries as the machine needs (map_create_slots() in collectors/recorder/bpf_maps.h).
 */
#ifndef SEEKMETER_BIN_MAPS_H
#define SEEKMETER_BIN_MAPS_H

#define BIN_MAPS(name, map_type, slots, key_type, value_type) \
	struct name##_slot {                                  \
		__uint(type, map_type);                       \
		__uint(max_entries, 1);                       \
		__uint(key_size, sizeof(key_type));           \
		__uint(value_size, sizeof(value_type));       \
	};                                                    \
	struct {                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);     \
		__uint(max_entries, slots);                   \
		__type(key, u32);                             \
		__array(values, struct name##_slot);          \
	} name SEC(".maps")

#endif
