// SPDX-License-Identifier: BSD-2-Clause
/*
 * aim7's process jobs: processes, pipes, signals, sockets and shared memory. A job starts at most one more process, its
 * partner, which the kernel ends with the job. Sockets are bound to 127.0.0.1 or not bound.
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
#define MESSAGES      20 /* round trips per unit */

/* Forks the partner process of a job. Returns its pid; 0 in the partner. */
static pid_t start_partner(void)
{
	pid_t parent = getpid();
	pid_t partner = fork();

	if (partner < 0)
		fail_errno("cannot be started (pids of the system or of a cgroup)", "a process");
	if (partner == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
		_exit(EXIT_RUN_FAILED);
	return partner;
}

static void wait_for_partner(pid_t partner)
{
	int status;

	while (waitpid(partner, &status, 0) < 0)
		if (errno != EINTR)
			fail_errno("cannot be waited for", "a process");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail(EXIT_RUN_FAILED, "aim7: the partner process of a job failed (status %d)",
		     status);
}

static void forks(struct task *task, unsigned int units, int variant)
{
	static char option[] = EXEC_OPTION;
	static char name[] = "aim7";
	char *const argv[] = { name, option, NULL };

	(void)task;
	for (; units > 0; units--) {
		pid_t partner = start_partner();

		if (partner == 0) {
			if (variant)
				execv("/proc/self/exe", argv);
			_exit(variant ? EXIT_RUN_FAILED : 0);
		}
		wait_for_partner(partner);
	}
}

static void transfer_message(int fd, char *buffer, int writes)
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

/* Sends messages to echo_messages(), and checks each reply: the message with 1 added to its first byte. */
static void exchange_messages(unsigned int units, int reads, int writes)
{
	char message[MESSAGE_BYTES] = { 0 };

	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		message[0] = (char)i;
		transfer_message(writes, message, 1);
		transfer_message(reads, message, 0);
		if (message[0] != (char)(i + 1))
			fail(EXIT_RUN_FAILED, "aim7: a message came back changed");
	}
}

static void echo_messages(unsigned int units, int reads, int writes)
{
	char message[MESSAGE_BYTES];

	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		transfer_message(reads, message, 0);
		message[0]++;
		transfer_message(writes, message, 1);
	}
	_exit(0);
}

/* Variant 0: both ends of the pipe are in the task. Variant 1: a partner process answers through a second pipe. */
static void pipes(struct task *task, unsigned int units, int variant)
{
	int there[2];
	int back[2];
	pid_t partner;

	(void)task;
	if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0)
		fail_errno("cannot be made", "a pipe");
	if (variant) {
		partner = start_partner();
		if (partner == 0)
			echo_messages(units, there[0], back[1]);
		exchange_messages(units, back[0], there[1]);
		wait_for_partner(partner);
	} else {
		char message[MESSAGE_BYTES] = { 0 };

		for (unsigned int i = 0; i < units * MESSAGES; i++) {
			transfer_message(there[1], message, 1);
			transfer_message(there[0], message, 0);
		}
	}
	close(there[0]);
	close(there[1]);
	close(back[0]);
	close(back[1]);
}

static void socket_pairs(struct task *task, unsigned int units, int type)
{
	int ends[2];
	pid_t partner;

	(void)task;
	if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
		fail_errno("cannot be made", "a pair of sockets");
	partner = start_partner();
	if (partner == 0)
		echo_messages(units, ends[1], ends[1]);
	exchange_messages(units, ends[0], ends[0]);
	wait_for_partner(partner);
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

static void tcp(struct task *task, unsigned int units, int variant)
{
	struct sockaddr_in address;
	int listen_fd = loopback_socket(SOCK_STREAM, &address);
	pid_t partner;
	int fd;

	(void)task;
	(void)variant;
	if (listen(listen_fd, 1) != 0)
		fail_errno("cannot listen", "a socket on 127.0.0.1");
	partner = start_partner();
	if (partner == 0) {
		fd = accept(listen_fd, NULL, NULL);
		if (fd < 0)
			fail_errno("cannot accept", "a socket on 127.0.0.1");
		echo_messages(units, fd, fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		fail_errno("cannot be made", "a socket");
	connect_to(fd, &address);
	exchange_messages(units, fd, fd);
	wait_for_partner(partner);
	close(fd);
	close(listen_fd);
}

/* The task has both sockets. One message is under way at a time, so a full socket buffer drops none. */
static void udp(struct task *task, unsigned int units, int variant)
{
	struct sockaddr_in first_address;
	struct sockaddr_in second_address;
	int first_fd = loopback_socket(SOCK_DGRAM, &first_address);
	int second_fd = loopback_socket(SOCK_DGRAM, &second_address);
	char message[MESSAGE_BYTES] = { 0 };

	(void)task;
	(void)variant;
	connect_to(first_fd, &second_address);
	connect_to(second_fd, &first_address);
	for (unsigned int i = 0; i < units * MESSAGES; i++) {
		transfer_message(first_fd, message, 1);
		transfer_message(second_fd, message, 0);
		transfer_message(second_fd, message, 1);
		transfer_message(first_fd, message, 0);
	}
	close(first_fd);
	close(second_fd);
}

static volatile sig_atomic_t signals_caught;

static void count_signal(int number)
{
	(void)number;
	signals_caught++;
}

static void signals(struct task *task, unsigned int units, int variant)
{
	struct sigaction counting = { .sa_handler = count_signal };
	struct sigaction before;

	(void)task;
	(void)variant;
	signals_caught = 0;
	if (sigaction(SIGUSR1, &counting, &before) != 0)
		fail_errno("cannot be caught", "a signal");
	for (unsigned int i = 0; i < units * 50; i++)
		if (raise(SIGUSR1) != 0)
			fail_errno("cannot be sent", "a signal");
	if ((unsigned int)signals_caught != units * 50)
		fail(EXIT_RUN_FAILED, "aim7: a signal was sent and not delivered");
	if (sigaction(SIGUSR1, &before, NULL) != 0)
		fail_errno("cannot be caught", "a signal");
}

/* Two processes increment a counter in one shared page. */
static void shared(struct task *task, unsigned int units, int variant)
{
	atomic_uint *count =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t partner;

	(void)task;
	(void)variant;
	if (count == MAP_FAILED)
		fail_errno("cannot be mapped", "shared memory");
	partner = start_partner();
	for (unsigned int i = 0; i < units * 1000; i++)
		atomic_fetch_add(count, 1);
	if (partner == 0)
		_exit(0);
	wait_for_partner(partner);
	if (atomic_load(count) != units * 2000)
		fail(EXIT_RUN_FAILED, "aim7: shared memory lost a count");
	if (munmap(count, 4096) != 0)
		fail_errno("cannot be unmapped", "shared memory");
}

const struct job process_jobs[] = {
	{ "fork", forks, 0 },
	{ "exec", forks, 1 },
	{ "pipe", pipes, 0 },
	{ "pipe_processes", pipes, 1 },
	{ "unix_stream", socket_pairs, SOCK_STREAM },
	{ "unix_packets", socket_pairs, SOCK_SEQPACKET },
	{ "tcp", tcp, 0 },
	{ "udp", udp, 0 },
	{ "signals", signals, 0 },
	{ "shared_memory", shared, 0 },
	{ NULL, NULL, 0 },
};
