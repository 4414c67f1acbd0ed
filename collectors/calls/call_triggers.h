/* SPDX-License-Identifier: BSD-2-Clause */
/* The trigger `call`: a file-system call took too long. */
#ifndef SEEKMETER_CALL_TRIGGERS_H
#define SEEKMETER_CALL_TRIGGERS_H

#include "common/records.h"

/* Calls of one time bin were taken out of the kernel. */
void call_triggers_row(const struct call_record *row);

#endif
