// SPDX-License-Identifier: BSD-2-Clause
/* Numbers on the command line and in the environment; see numbers.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/session/fail.h"
#include "numbers.h"

uint64_t parse_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < min ||
	    number > max)
		fail(EXIT_WRONG_WORDS,
		     "%s '%s' is not a number that can be used; give one from %" PRIu64
		     " to %" PRIu64,
		     option, text, min, max);
	return number;
}

uint64_t number_in_environment(const char *name, uint64_t otherwise, uint64_t min, uint64_t max)
{
	const char *text = getenv(name);

	return text == NULL || text[0] == '\0' ? otherwise : parse_number(name, text, min, max);
}
