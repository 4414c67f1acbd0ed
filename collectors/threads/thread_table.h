/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of threads, thread.jsonl: one line for each thread, when it has ended, or at the end. */
#ifndef SEEKMETER_THREAD_TABLE_H
#define SEEKMETER_THREAD_TABLE_H

#include <stdbool.h>

struct options;
struct thread_slot;

/* Creates the file; 0, or -1 with errno. */
int thread_table_open(const struct options *options);
/*
 * Writes a thread's line, with the kernel's counts from its first sight on. One that is alive has them from /proc;
 * same_tids: /proc numbers threads as the programs do. False: the line could not be written.
 */
bool thread_table_write(struct thread_slot *slot, bool same_tids);
void thread_table_flush(void);
/* From here until thread_table_keep_end() lines go to a table of their own, in these options' directory. -1: errno is set. */
int thread_table_keep(const struct options *kept);
/* False: lines are missing. */
bool thread_table_keep_end(void);
void thread_table_close(void);

#endif
