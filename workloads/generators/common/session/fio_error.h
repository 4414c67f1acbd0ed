// SPDX-License-Identifier: BSD-2-Clause
/* Why fio failed, from its output. */
#ifndef GENERATORS_FIO_ERROR_H
#define GENERATORS_FIO_ERROR_H

#include "program.h"

/* Ends the program with fio's exit status and the first line that fio complained with. JOB: what it was doing. */
void fio_failed(const struct program_output *output, const char *job) __attribute__((noreturn));

#endif
