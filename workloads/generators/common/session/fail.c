// SPDX-License-Identifier: BSD-2-Clause
/* Error messages and exit statuses; of threads or processes that fail at once, one prints; see fail.h. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"

/* Who fails takes the lock for good: the others wait until it has ended, and the first one's words are all. */
struct last_words {
	pthread_mutex_t lock;
	bool said;
};

static struct last_words own = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct last_words *last_words = &own;

void fail_as_one(void)
{
	struct last_words *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t how;

	if (shared == MAP_FAILED)
		fail_errno("cannot be mapped", "memory");
	/* Robust: the kernel passes on the lock of one that was killed. None of these calls can fail. */
	pthread_mutexattr_init(&how);
	pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->lock, &how);
	pthread_mutexattr_destroy(&how);
	last_words = shared;
}

/* The line goes out by one write(2): what others write to the same log cannot come between. */
static void speak(const char *format, va_list args)
{
	char line[PIPE_BUF] = "seekmeter: ";
	size_t length = strlen(line);
	int wanted = vsnprintf(line + length, sizeof(line) - length, format, args);

	length += wanted > 0 ? (size_t)wanted : 0;
	if (length > sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n'; /* where the NUL was */
	fflush(stdout); /* progress first, so that the last line in a joint log is the error */
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		continue;
}

void fail(int exit_status, const char *format, ...)
{
	va_list args;

	if (pthread_mutex_lock(&last_words->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&last_words->lock);
	if (!last_words->said) {
		va_start(args, format);
		speak(format, args);
		va_end(args);
		last_words->said = true;
	}
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
