// SPDX-License-Identifier: BSD-2-Clause
/* Requests a remount from the session, by the protocol of collectors/trace/remount.py; see remount.h. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fail.h"
#include "remount.h"

#define SESSION	       "the session ($SEEKMETER_REMOUNT)"
#define ANSWER_MINUTES 60 /* gigabytes may have to be written back first, to a slow disk */

static int send_request(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail_errno("cannot be reached", SESSION);
	if (strlen(path) >= sizeof(address.sun_path))
		fail(EXIT_RUN_FAILED, "%s: the socket's path is too long", SESSION);
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    send(fd, "remount\n", 8, MSG_NOSIGNAL) != 8)
		fail_errno("cannot be reached", SESSION);
	return fd;
}

/* Reads the answer, one line, without its newline. */
static void read_answer(int fd, char *line, size_t room)
{
	size_t length = 0;

	while (length == 0 || line[length - 1] != '\n') {
		struct pollfd input = { .fd = fd, .events = POLLIN };
		int ready = poll(&input, 1, ANSWER_MINUTES * 60 * 1000);
		ssize_t got;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready == 0)
			fail(EXIT_RUN_FAILED, SESSION ": no answer for %d minutes", ANSWER_MINUTES);
		got = ready < 0 ? -1 : read(fd, line + length, room - length);
		if (got < 0)
			fail_errno("answer cannot be read", SESSION);
		if (got == 0)
			fail(EXIT_RUN_FAILED, SESSION ": ended before it answered");
		length += (size_t)got;
		if (length == room)
			break;
	}
	line[length - 1] = '\0';
}

const char *remount(void)
{
	static char line[4096];
	const char *path = getenv("SEEKMETER_REMOUNT");
	char directory[PATH_MAX];
	int fd;

	if (path == NULL || path[0] == '\0')
		return "there is no session to remount ($SEEKMETER_REMOUNT is not set)";
	if (getcwd(directory, sizeof(directory)) == NULL)
		fail_errno("cannot be read", "the working directory");
	if (chdir("/") != 0)
		fail_errno("cannot be entered", "/");
	fflush(stdout);
	fd = send_request(path);
	read_answer(fd, line, sizeof(line));
	close(fd);
	if (chdir(directory) != 0)
		fail_errno("cannot be entered again", directory);
	if (strcmp(line, "ok") == 0)
		return NULL;
	if (strncmp(line, "no ", 3) == 0)
		return line + 3;
	fail(EXIT_RUN_FAILED, "remount: %s",
	     strncmp(line, "error ", 6) == 0 ? line + 6 : "the answer is not understood");
}
