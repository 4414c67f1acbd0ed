// SPDX-License-Identifier: BSD-2-Clause
/* Says on stderr what is wrong; see fail.h. */
#include "fail.h"

#include <stdio.h>

int fail(const char *subject, const char *problem)
{
	fprintf(stderr, "recorder: %s: %s\n", subject, problem);
	return -1;
}
