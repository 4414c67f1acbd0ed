// SPDX-License-Identifier: BSD-2-Clause
/* Numbers on the command line and in the environment. A text that is not a valid number ends the program (fail.h). */
#ifndef GENERATORS_NUMBERS_H
#define GENERATORS_NUMBERS_H

#include <stdint.h>

/* Parses TEXT as a number from MIN to MAX. OPTION is for the message. */
uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max);

/* Parses an environment variable in the same way. Returns OTHERWISE if the variable is not set or empty. */
uint64_t number_in_environment(const char *name, uint64_t otherwise, uint64_t min, uint64_t max);

#endif
