/* SPDX-License-Identifier: BSD-2-Clause */
/* Reasons of events that the kernel tells by number or by address. */
#ifndef SEEKMETER_EVENT_REASONS_H
#define SEEKMETER_EVENT_REASONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

struct btf;

/* Fills in the reasons by the kernel's own numbers of enum wb_reason. */
void reasons_of_writeback(const struct btf *btf, uint8_t *reasons);
/* Why XFS forces its log, by an address in the function that asks. False: this is a force's second report. */
bool reason_of_force(uint64_t caller, enum event_why *why);
/* Is this an address in the function that writes the log, which waits for earlier buffers in its own right? */
bool is_log_push(uint64_t caller);

#endif
