/* SPDX-License-Identifier: BSD-2-Clause */
/* System call number -> file-system call, for the architecture this is compiled on. */
#ifndef SEEKMETER_CALL_TABLE_H
#define SEEKMETER_CALL_TABLE_H

#include "common/records.h"

extern const struct call_entry call_table[CALL_TABLE];

#endif
