// SPDX-License-Identifier: BSD-2-Clause
/*
 * aim7's process jobs: processes, pipes, signals, sockets and shared memory. A job has at most one process besides its
 * own, which the kernel ends with the job. Sockets are bound to 127.0.0.1 or to nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "jobs.h"

#define MESSAGE_BYTES 1024
#define MESSAGES      20 /* a unit: so many there and back */

/* The other process of a job; 0 in it. */
static pid_t start_other(void)
{
	pid_t parent = getpid();
	pid_t other = fork();

	if (other < 0)
		fail_errno("cannot be started (pids of the system or of a cgroup)", "a process");
	if (other == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
		_exit(EXIT_RUN_FAILED);
	return other;
}

static void wait_for_other(pid_t other)
{
	int status;

	while (waitpid(other, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("cannot be waited for", "a process");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail(EXIT_RUN_FAILED, "aim7: the other process of a job failed (status %d)",
		     status);
}

static void forks(struct task *task, unsigned int units, int what)
{
	static char word[] = EXEC_WORD;
	static char name[] = "aim7";
	char *const words[] = { name, word, NULL };

	(void)task;
	for (; units > 0; units--) {
		pid_t other = start_other();

		if (other == 0) {
			if (what)
				execv("/proc/self/exe", words);
			_exit(what ? EXIT_RUN_FAILED : 0);
		}
		wait_for_other(other);
	}
}

static void all_bytes(int fd, char *buffer, int writes)
{
	for (size_t done = 0; done < MESSAGE_BYTES;) {
		ssize_t part = writes ? write(fd, buffer + done, MESSAGE_BYTES - done)
				      : read(fd, buffer + done, MESSAGE_BYTES - done);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			fail_errno("cannot be read or written", "a pipe or socket");
		if (part == 0)
			fail(EXIT_RUN_FAILED, "aim7: a pipe or socket ended early");
		done += (size_t)part;
	}
}

/* Messages there and back; each comes back with one added to its first byte. */
static void talk(unsigned int units, int reads, int writes)
{
	char message[MESSAGE_BYTES] = { 0 };

	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		message[0] = (char)i;
		all_bytes(writes, message, 1);
		all_bytes(reads, message, 0);
		if (message[0] != (char)(i + 1))
			fail(EXIT_RUN_FAILED, "aim7: a message came back changed");
	}
}

static void answer(unsigned int units, int reads, int writes)
{
	char message[MESSAGE_BYTES];

	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		all_bytes(reads, message, 0);
		message[0]++;
		all_bytes(writes, message, 1);
	}
	_exit(0);
}

/* With a process of its own at the other end, or both ends here. */
static void pipes(struct task *task, unsigned int units, int what)
{
	int there[2];
	int back[2];
	pid_t other;

	(void)task;
	if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
		fail_errno("cannot be made", "a pipe");
	if (what) {
		other = start_other();
		if (other == 0)
			answer(units, there[0], back[1]);
		talk(units, back[0], there[1]);
		wait_for_other(other);
	} else {
		char message[MESSAGE_BYTES] = { 0 };

		for (unsigned int i = 0; i < units * MESSAGES; i++) {
			all_bytes(there[1], message, 1);
			all_bytes(there[0], message, 0);
		}
	}
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

static void pairs(struct task *task, unsigned int units, int type)
{
	int ends[2];
	pid_t other;

	(void)task;
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
		fail_errno("cannot be made", "a pair of sockets");
	other = start_other();
	if (other == 0)
		answer(units, ends[1], ends[1]);
	talk(units, ends[0], ends[0]);
	wait_for_other(other);
	close(ends[0]);
	close(ends[1]);
}

static int loopback_socket(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(*address)) != 0 ||
	    getsockname(fd, (struct sockaddr *)address, &length) != 0)
		fail_errno("cannot be made (is the interface lo up?)", "a socket on 127.0.0.1");
	return fd;
}

static void connect_to(int fd, const struct sockaddr_in *address)
{
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
		fail_errno("cannot be connected (is the interface lo up?)",
			   "a socket on 127.0.0.1");
}

static void tcp(struct task *task, unsigned int units, int what)
{
	struct sockaddr_in address;
	int listens = loopback_socket(SOCK_STREAM, &address);
	pid_t other;
	int fd;

	(void)task;
	(void)what;
	if (listen(listens, 1) != 0)
		fail_errno("cannot listen", "a socket on 127.0.0.1");
	other = start_other();
	if (other == 0) {
		fd = accept(listens, NULL, NULL);
		if (fd < 0)
			fail_errno("cannot accept", "a socket on 127.0.0.1");
		answer(units, fd, fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail_errno("cannot be made", "a socket");
	connect_to(fd, &address);
	talk(units, fd, fd);
	wait_for_other(other);
	close(fd);
	close(listens);
}

/* Both ends here: one message at a time, so that none is lost for want of room. */
static void udp(struct task *task, unsigned int units, int what)
{
	struct sockaddr_in here;
	struct sockaddr_in there;
	int one = loopback_socket(SOCK_DGRAM, &here);
	int other = loopback_socket(SOCK_DGRAM, &there);
	char message[MESSAGE_BYTES] = { 0 };

	(void)task;
	(void)what;
	connect_to(one, &there);
	connect_to(other, &here);
	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		all_bytes(one, message, 1);
		all_bytes(other, message, 0);
		all_bytes(other, message, 1);
		all_bytes(one, message, 0);
	}
	close(one);
	close(other);
}

static volatile sig_atomic_t caught;

static void catch (int number)
{
	(void)number;
	caught++;
}

static void signals(struct task *task, unsigned int units, int what)
{
	struct sigaction catching = { .sa_handler = catch };
	struct sigaction before;

	(void)task;
	(void)what;
	caught = 0;
	if (sigaction(SIGUSR1, &catching, &before) != 0)
		fail_errno("cannot be caught", "a signal");
	for (unsigned int i = 0; i < units * 50; i++)
		if (raise(SIGUSR1) != 0)
			fail_errno("cannot be sent", "a signal");
	if ((unsigned int)caught != units * 50)
		fail(EXIT_RUN_FAILED, "aim7: a signal that was sent did not come");
	if (sigaction(SIGUSR1, &before, NULL) != 0)
		fail_errno("cannot be caught", "a signal");
}

/* Two processes count in one page. */
static void shared(struct task *task, unsigned int units, int what)
{
	atomic_uint *count =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t other;

	(void)task;
	(void)what;
	if (count == MAP_FAILED)
		fail_errno("cannot be mapped", "shared memory");
	other = start_other();
	for (unsigned int i = 0; i < units * 1000; i++)
		atomic_fetch_add(count, 1);
	if (other == 0)
		_exit(0);
	wait_for_other(other);
	if (atomic_load(count) != units * 2000)
		fail(EXIT_RUN_FAILED, "aim7: shared memory lost a count");
	if (munmap(count, 4096) != 0)
		fail_errno("cannot be given back", "shared memory");
}

const struct job process_jobs[] = {
	{ "fork", forks, 0 },
	{ "exec", forks, 1 },
	{ "pipe", pipes, 0 },
	{ "pipe_processes", pipes, 1 },
	{ "unix_stream", pairs, SOCK_STREAM },
	{ "unix_packets", pairs, SOCK_SEQPACKET },
	{ "tcp", tcp, 0 },
	{ "udp", udp, 0 },
	{ "signals", signals, 0 },
	{ "shared_memory", shared, 0 },
	{ NULL, NULL, 0 },
};
