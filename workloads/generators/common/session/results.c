// SPDX-License-Identifier: BSD-2-Clause
/* Writes rows of the workload's results for the session; see results.h. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "results.h"

static const char *results_path;
static int results_fd = -1;

void results_open(void)
{
	results_path = getenv("SEEKMETER_FIGURES");
	if (results_path == NULL || results_path[0] == '\0')
		return;
	results_fd = open(results_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (results_fd < 0)
		fail_errno("cannot open the results file ($SEEKMETER_FIGURES)", results_path);
}

void results_row(const char *table, const char *members, ...)
{
	char row[768];
	char line[1024];
	va_list args;
	int length;

	if (results_fd < 0)
		return;
	va_start(args, members);
	length = vsnprintf(row, sizeof(row), members, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(row) || strlen(table) > 100)
		fail(EXIT_RUN_FAILED, "a row of '%s' is too long; shorten it in the generator",
		     table);
	length = snprintf(line, sizeof(line), "{\"table\":\"%s\",%s}\n", table, row);
	if (write(results_fd, line, (size_t)length) != length)
		fail_errno("cannot write the results", results_path);
}
