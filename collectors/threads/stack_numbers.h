/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of sleeping threads, for other collectors. */
#ifndef SEEKMETER_THREAD_STACK_NUMBERS_H
#define SEEKMETER_THREAD_STACK_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Writes the stack of a task context's sleep_stack_id if it is new, and sets *number, as stacks_note() does. False: it could
 * not be written, or the collector threads is off.
 */
bool thread_stack_note(int32_t stack_id, int32_t *number);

#endif
