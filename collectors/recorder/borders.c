// SPDX-License-Identifier: BSD-2-Clause
/*
 * Borders of phases: a workload that begins or ends a phase requests a cut of all time bins, so that no bin reaches over
 * the border.
 *
 * The socket is a Unix socket of whole messages (SOCK_SEQPACKET). A request has eight bytes: the time of the border
 * (CLOCK_MONOTONIC in ns; 0: as soon as possible). The answer has eight: the time of the cut, always in the future, or 0
 * if there can be none. The client waits for that time and goes on. A thread of its own answers, as emptying the bins may
 * take longer than a phase. Collectors with at_border() are sampled at each border too.
 */
#include "borders.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "options.h"
#include "registry.h"
#include "time_bins.h"

#define TALK_SECONDS 1	/* as long as clients wait; a client stopped for longer has no cut */
#define ROOM_TRIES   50 /* one per millisecond, while the recorder is behind */
#define WAITING_MAX  64

static int listener = -1, hangup[2] = { -1, -1 };
static pthread_t thread;
static bool running;
static uid_t owner;
static uint64_t made, refused;

/* The client is a process of root, or of the user who started the run. */
static bool is_allowed(int client)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	return !getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
	       (peer.uid == 0 || peer.uid == owner);
}

static uint64_t cut(uint64_t at_ns)
{
	bool later = true;
	uint64_t time_ns = 0;

	for (int i = 0; i < ROOM_TRIES && !time_ns && later; i++) {
		if (i)
			usleep(1000);
		time_ns = bins_cut(at_ns, &later);
	}
	__atomic_fetch_add(time_ns ? &made : &refused, 1, __ATOMIC_RELAXED);
	return time_ns;
}

static void answer(int client)
{
	struct timeval patience = { .tv_sec = TALK_SECONDS };
	const struct collector_ops *ops;
	uint64_t at_ns;

	if (setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    !is_allowed(client))
		return;
	if (recv(client, &at_ns, sizeof(at_ns), 0) != sizeof(at_ns)) {
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
		return;
	}
	at_ns = cut(at_ns);
	/* A client that is gone needs no answer. */
	(void)!send(client, &at_ns, sizeof(at_ns), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (at_ns && at_ns < monotonic_ns() + NS_PER_MS)
		for_each_collector(ops) if (ops->at_border) ops->at_border();
}

static void *serve(void *nothing)
{
	struct pollfd input[] = { { .fd = listener, .events = POLLIN },
				  { .fd = hangup[0], .events = POLLIN } };

	for (;;) {
		int client;

		if (poll(input, 2, -1) < 0 && errno != EINTR)
			break;
		if (input[1].revents)
			break;
		client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			continue;
		answer(client);
		close(client);
	}
	return nothing;
}

int borders_open(const struct options *options)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (!options->borders)
		return 0;
	if (strlen(options->borders) >= sizeof(address.sun_path))
		return fail(options->borders, "too long for a socket");
	memcpy(address.sun_path, options->borders, strlen(options->borders));
	owner = options->owner;
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(options->borders, 0666) || listen(listener, WAITING_MAX) ||
	    pipe2(hangup, O_CLOEXEC)) {
		fail(options->borders, strerror(errno));
		borders_close();
		return -1;
	}
	errno = pthread_create(&thread, NULL, serve, NULL);
	if (errno) {
		fail("borders", strerror(errno));
		borders_close();
		return -1;
	}
	running = true;
	return 0;
}

void borders_close(void)
{
	if (running) {
		(void)!write(hangup[1], "", 1);
		pthread_join(thread, NULL);
	}
	running = false;
	for (int i = 0; i < 2; i++) {
		if (hangup[i] >= 0)
			close(hangup[i]);
		hangup[i] = -1;
	}
	if (listener >= 0)
		close(listener);
	listener = -1;
}

uint64_t borders_made(void)
{
	return __atomic_load_n(&made, __ATOMIC_RELAXED);
}

uint64_t borders_refused(void)
{
	return __atomic_load_n(&refused, __ATOMIC_RELAXED);
}
