/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a watch follows: a cgroup by its path (--follow-cgroup), or a process and its children (--follow-pid).
 *
 * A service that is started again gets a new cgroup of the same path: the path is looked up at each tick, and the new
 * directory takes the old one's place in the maps of all collectors. A process's children are followed by
 * bpf/common/followed.bpf.c.
 */
#ifndef SEEKMETER_FOLLOWED_H
#define SEEKMETER_FOLLOWED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct bpf_map;
struct options;

/* Opens what is followed, before any collector; sets options->cgroup_fd. 0; -1: the message is printed. */
int followed_open(struct options *options);
/* Lends the map of followed processes to an object, before it is loaded. Returns whether processes are followed. */
bool followed_share(const struct options *options, struct bpf_map *map);
/* Notes the loaded map that has the workload's cgroup, which may be replaced. */
void followed_note_map(int fd);
/* Whether an object could not get the map: nothing may be recorded then. */
bool followed_failed(void);
/* Whether a process is followed: by its number, or as it is in the cgroup now. */
bool followed_has(uint32_t tgid);
/* Looks whether it is still there, every DRAIN_MS. */
void followed_tick(uint64_t now_ns);
/* Writes "workload": {...} of losses.json; nothing if nothing is followed. */
void followed_write(FILE *out);
void followed_close(void);

#endif
