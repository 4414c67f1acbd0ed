/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's lock functions, and the functions that tracing puts on top of a stack: one table for all of the
 * recorder.
 *
 * tests/collectors/test_lock_functions.py holds the analysis' pattern (lock_names.PRIMITIVE) against this table.
 */
#ifndef SEEKMETER_LOCK_FUNCTIONS_H
#define SEEKMETER_LOCK_FUNCTIONS_H

#include <stdbool.h>

#include "common/records.h"

/* A function that takes, releases or waits for a lock, or traces that: never the caller a lock is named by. */
bool is_lock_function(const char *symbol);
/* A function of the tracing itself. */
bool is_tracing_function(const char *symbol);
/* A function that leads to a BPF program: all frames above it on a stack are the tracing's own. */
bool is_tracing_call(const char *symbol);
/* The kind of a spinning function (enum spin_range_kind); -1: the function is not in the table. */
int spin_kind_of(const char *symbol);

#endif
