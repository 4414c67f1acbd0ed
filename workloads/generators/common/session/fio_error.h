// SPDX-License-Identifier: BSD-2-Clause
/* Error exit after fio has failed. */
#ifndef GENERATORS_FIO_ERROR_H
#define GENERATORS_FIO_ERROR_H

#include "program.h"

/*
 * Ends the program with a message: fio's exit status and fio's first error line. JOB: the failed job, for the message.
 */
void fio_failed(const struct program_output *output, const char *job) __attribute__((noreturn));

#endif
