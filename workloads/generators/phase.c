// SPDX-License-Identifier: BSD-2-Clause
/*
 * phase: for workloads that are scripts. Runs one command and marks its time as a phase of the run:
 *
 *   phase unpack tar xf linux.tar.xz && phase build make -s -C linux
 *
 * The exit status is the command's, as a shell has it (128 + the signal that ended it; 127 not found). A
 * command that fails is a phase too. Without a session ($SEEKMETER_PHASES) it only runs the command.
 */
#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/phases.h"

#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL    128
#define NAME_BYTES_MAX 60 /* the reports show no more of a name */

static void check_name(const char *name)
{
	if (name[0] == '\0' || strlen(name) > NAME_BYTES_MAX)
		fail(EXIT_WRONG_WORDS,
		     "phase: the name '%s' has not 1 to %d bytes; give another name", name,
		     NAME_BYTES_MAX);
	for (const char *at = name; *at != '\0'; at++)
		if (*at == '"' || *at == '\\' || iscntrl((unsigned char)*at))
			fail(EXIT_WRONG_WORDS,
			     "phase: the name has a quote, a backslash or a control character; leave it out");
}

int main(int argc, char **argv)
{
	int64_t start_ns;
	int error, status;
	pid_t pid;

	if (argc < 3 || argv[1][0] == '-')
		fail(EXIT_WRONG_WORDS,
		     "phase: arguments are missing; give phase NAME COMMAND [ARGUMENT]...");
	check_name(argv[1]);
	phases_open();
	phase_announce(argv[1], now_ns());
	start_ns = phase_begin();
	error = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
	if (error == ENOENT)
		fail(EXIT_NOT_FOUND, "phase: %s: not found; install it", argv[2]);
	errno = error;
	if (error != 0)
		fail_errno("cannot be run", argv[2]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("cannot be waited for", argv[2]);
	phase_done(argv[1], start_ns, now_ns(), 0, 0);
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
