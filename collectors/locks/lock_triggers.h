/* SPDX-License-Identifier: BSD-2-Clause */
/* The trigger `lock`: a wait for a lock was too long. */
#ifndef SEEKMETER_LOCK_TRIGGERS_H
#define SEEKMETER_LOCK_TRIGGERS_H

#include "common/records.h"

/* Waits of one time bin were taken out of the kernel. */
void lock_triggers_row(const struct lock_wait_record *row);

#endif
