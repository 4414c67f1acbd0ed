// SPDX-License-Identifier: BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

void fail(int exit_status, const char *format, ...)
{
	static pthread_mutex_t last_words = PTHREAD_MUTEX_INITIALIZER;
	va_list args;

	pthread_mutex_lock(&last_words); /* for good: a full disk fails all threads at once */
	fflush(stdout); /* progress first, so that the last line in a joint log is the error */
	fputs("seekmeter: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(exit_status);
}

void fail_errno(const char *what, const char *path)
{
	int error = errno;
	const char *remedy = "";
	char reason[128];

	snprintf(reason, sizeof(reason), "%s", strerror(error));
	reason[0] = (char)tolower((unsigned char)reason[0]);
	if (error == ENOSPC || error == EDQUOT)
		remedy = "; give a larger disk (SIZE=) or a smaller SCALE=";
	else if (error == EROFS)
		remedy = "; look in dmesg for why the file system went read-only";
	fail(EXIT_RUN_FAILED, "%s: %s: %s%s", path, what, reason, remedy);
}

void *must_alloc(void *memory)
{
	if (memory == NULL)
		fail(EXIT_RUN_FAILED, "memory is used up; give the workload more (MEM=)");
	return memory;
}
