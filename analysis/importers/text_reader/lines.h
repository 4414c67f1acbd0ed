/* SPDX-License-Identifier: BSD-2-Clause */
/* A file or a pipe, line by line. */
#ifndef SEEKMETER_TEXT_LINES_H
#define SEEKMETER_TEXT_LINES_H

#include "events.h"

/* Gives each line to read_line(). Returns 0 or errno, also of what could not be written. */
int read_lines(int fd, struct reader *reader);

#endif
