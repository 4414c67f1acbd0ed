// SPDX-License-Identifier: BSD-2-Clause
/* Ends the program with fio's error message; see fio_error.h. */
#include <errno.h>
#include <string.h>

#include "fail.h"
#include "fio_error.h"

/* The first "fio: " line has the cause. Its details of the failed request, from " offset=" on, are left out. */
void fio_failed(const struct program_output *output, const char *job)
{
	const char *why = strstr(output->first, "fio: ");
	const char *end;

	why = why != NULL ? why + strlen("fio: ") : output->first;
	end = strstr(why, " offset=");
	while (end != NULL && end > why && *end != ':')
		end--;
	fail(EXIT_RUN_FAILED, "fio failed (exit status %d, %s): %.*s%s", output->exit_status, job,
	     end != NULL ? (int)(end - why) : (int)strcspn(why, "\n"), why,
	     strstr(why, strerror(ENOSPC)) != NULL
		     ? "; give a larger disk (SIZE=) or a smaller SCALE="
		     : "");
}
