/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernel stacks with symbols, each written once, into stack.jsonl. */
#ifndef SEEKMETER_STACKS_H
#define SEEKMETER_STACKS_H

#include <stdbool.h>
#include <stdint.h>

struct options;

/* Creates stack.jsonl; 0, or -1 with errno. */
int stacks_open(const struct options *options);
/*
 * Writes the stack of a map's stack_id if it is new, and sets *number: the stack's number in the file and in the
 * tables, 0, 1, 2…, in order of first use. (The map's ids are hashes of addresses, by which a guess of these could
 * be checked.) An id below 0 is its own number. map_fd: a BPF_MAP_TYPE_STACK_TRACE map, or, for ids from
 * LOCK_HOLDER_STACK_IDS on, a hash map of struct lock_holder_stack. False: the stack could not be read or written; a
 * later call may, under the same number.
 */
bool stacks_note(int map_fd, int32_t stack_id, int32_t *number);
/* The same for a hash map of struct thread_stack (bpf/threads/thread_slots.h). */
bool stacks_note_of_thread(int map_fd, int32_t stack_id, int32_t *number);
/* How many of a stack's frames, innermost first, belong to the tracing itself. */
int stacks_own_frames(const uint64_t *frames, int count);
/* Writes the noted stacks; stacks that can't be written now are tried again. */
void stacks_flush(void);
void stacks_close(void);

#endif
