// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "results.h"

static const char *figures_path;
static int figures_fd = -1;

void figures_open(void)
{
	figures_path = getenv("SEEKMETER_FIGURES");
	if (figures_path == NULL || figures_path[0] == '\0')
		return;
	figures_fd = open(figures_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (figures_fd < 0)
		fail_errno("cannot open the figures file ($SEEKMETER_FIGURES)", figures_path);
}

void figures_row(const char *table, const char *members, ...)
{
	char row[768];
	char line[1024];
	va_list args;
	int length;

	if (figures_fd < 0)
		return;
	va_start(args, members);
	length = vsnprintf(row, sizeof(row), members, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(row) || strlen(table) > 100)
		fail(EXIT_RUN_FAILED, "a row of '%s' is too long; shorten it in the generator",
		     table);
	length = snprintf(line, sizeof(line), "{\"table\":\"%s\",%s}\n", table, row);
	if (write(figures_fd, line, (size_t)length) != length)
		fail_errno("cannot write the figures", figures_path);
}
