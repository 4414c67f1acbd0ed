// SPDX-License-Identifier: BSD-2-Clause
/* Runs another program as part of a workload and reads its output; see program.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail.h"
#include "program.h"

#define BUFFER_BYTES	 (1024 * 1024)
#define SMALL_PIPE_BYTES 4096
#define EXIT_NOT_FOUND	 127

static void exec_program(const char *const argv[], int in, int out, bool with_stderr)
{
	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    (with_stderr && dup2(out, STDERR_FILENO) < 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		_exit(EXIT_RUN_FAILED);
	execvp(argv[0], (char *const *)argv);
	_exit(EXIT_NOT_FOUND);
}

/*
 * Pid of the running program, and of its parent. The program must not outlive the parent and keep the file system busy.
 */
static pid_t running, owner;

static void end_running(void)
{
	if (running <= 0 || owner != getpid())
		return;
	kill(running, SIGKILL);
	waitpid(running, NULL, 0);
}

static void add_output(struct program_output *output, const char *data, size_t bytes)
{
	size_t room = sizeof(output->first) - 1;

	if (output->bytes < room) {
		size_t kept = room - output->bytes < bytes ? room - output->bytes : bytes;

		memcpy(output->first + output->bytes, data, kept);
	}
	output->bytes += bytes;
	for (const char *at = data; (at = memchr(at, '\n', bytes - (size_t)(at - data))); at++)
		output->lines++;
	if (output->on_output != NULL)
		output->on_output(output);
}

static void read_all(int fd, struct program_output *output, const char *name)
{
	char *buffer = must_alloc(malloc(BUFFER_BYTES));
	ssize_t got;

	while ((got = read(fd, buffer, BUFFER_BYTES)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			fail_errno("its output cannot be read", name);
		add_output(output, buffer, (size_t)got);
	}
	free(buffer);
}

void program_run(const char *const argv[], int in, struct program_output *output)
{
	int ends[2];
	int status;
	pid_t pid;

	if (fflush(stdout) != 0 || pipe2(ends, O_CLOEXEC) != 0)
		fail_errno("no pipe can be made for its output", argv[0]);
	/*
	 * A large pipe for fewer switches between reader and writer; above pipe-max-size the call fails, and the pipe
	 * has the usual 64 KiB. With on_output the smallest pipe: a program that prints errors without end then waits
	 * until on_output() has read the first of them.
	 */
	(void)fcntl(ends[0], F_SETPIPE_SZ,
		    output->on_output != NULL ? SMALL_PIPE_BYTES : BUFFER_BYTES);
	pid = fork();
	if (pid < 0)
		fail_errno("cannot be started", argv[0]);
	if (pid == 0)
		exec_program(argv, in, ends[1], output->with_stderr);
	if (owner == 0 && atexit(end_running) != 0)
		fail(EXIT_RUN_FAILED, "%s: no exit handler can be registered", argv[0]);
	owner = getpid();
	output->pid = running = pid;
	close(ends[1]);
	read_all(ends[0], output, argv[0]);
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("cannot be waited for", argv[0]);
	running = 0;
	if (WIFSIGNALED(status))
		fail(EXIT_RUN_FAILED, "%s: ended by signal %d", argv[0], WTERMSIG(status));
	if (WEXITSTATUS(status) == EXIT_NOT_FOUND)
		fail(EXIT_RUN_FAILED, "%s: cannot be run; install it", argv[0]);
	output->exit_status = WEXITSTATUS(status);
	if (output->exit_status != 0 && !output->may_fail)
		fail(EXIT_RUN_FAILED, "%s: failed with exit status %d", argv[0],
		     output->exit_status);
}

const char *sibling_program(const char *name)
{
	static char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (length < 0)
		fail_errno("cannot be read", "/proc/self/exe");
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL || (size_t)(slash + 1 - path) + strlen(name) >= sizeof(path))
		fail(EXIT_RUN_FAILED, "%s: is not in the folder of %s", name, path);
	strcpy(slash + 1, name);
	return path;
}
