// SPDX-License-Identifier: BSD-2-Clause
/* Numbers on the command line and in the environment; a wrong one ends the program (fail.h). */
#ifndef GENERATORS_NUMBERS_H
#define GENERATORS_NUMBERS_H

#include <stdint.h>

/* TEXT as a number from MIN to MAX; OPTION is for the message. */
uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max);

/* The same of an environment variable; OTHERWISE if it is not set or empty. */
uint64_t number_in_environment(const char *name, uint64_t otherwise, uint64_t min, uint64_t max);

#endif
