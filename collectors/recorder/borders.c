// SPDX-License-Identifier: BSD-2-Clause
/*
 * The borders of phases: whoever begins or ends one asks for a cut of all time bins, so that none reaches over the border.
 *
 * A Unix socket of whole messages. One asks with eight bytes, when the border shall be (CLOCK_MONOTONIC in ns; 0: as
 * soon as may be), and gets eight: when it will be, always a moment to come, or 0 where it can't be. One waits
 * for that moment and goes on. A thread of its own answers, as emptying the bins may take longer than a phase.
 * The counters are sampled at each border too.
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
#include "options.h"
#include "registry.h"
#include "time_bins.h"

#define TALK_SECONDS 1	/* as long as askers wait; one that is stopped for longer has no cut */
#define ROOM_TRIES   50 /* times a millisecond: how long to wait for the recorder that is behind */
#define WAITING_MAX  64

static int listener = -1, hangup[2] = { -1, -1 };
static pthread_t thread;
static bool running;
static uid_t owner;
static uint64_t made, refused;

/* Of root, and of the user whose command the workload is. */
static bool may_ask(int asker)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);

	return !getsockopt(asker, SOL_SOCKET, SO_PEERCRED, &who, &bytes) &&
	       (who.uid == 0 || who.uid == owner);
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

static void answer(int asker)
{
	struct timeval patience = { .tv_sec = TALK_SECONDS };
	const struct collector_ops *ops;
	uint64_t at_ns;

	if (setsockopt(asker, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) ||
	    !may_ask(asker))
		return;
	if (recv(asker, &at_ns, sizeof(at_ns), 0) != sizeof(at_ns)) {
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
		return;
	}
	at_ns = cut(at_ns);
	/* An asker that is gone needs no answer. */
	(void)!send(asker, &at_ns, sizeof(at_ns), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (at_ns && at_ns < monotonic_ns() + NS_PER_MS)
		for_each_collector(ops) if (ops->at_border) ops->at_border();
}

static void *serve(void *nothing)
{
	struct pollfd heard[] = { { .fd = listener, .events = POLLIN },
				  { .fd = hangup[0], .events = POLLIN } };

	for (;;) {
		int asker;

		if (poll(heard, 2, -1) < 0 && errno != EINTR)
			break;
		if (heard[1].revents)
			break;
		asker = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (asker < 0)
			continue;
		answer(asker);
		close(asker);
	}
	return nothing;
}

int borders_open(const struct options *options)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };

	if (!options->borders)
		return 0;
	if (strlen(options->borders) >= sizeof(place.sun_path))
		return fail(options->borders, "too long for a socket");
	memcpy(place.sun_path, options->borders, strlen(options->borders));
	owner = options->owner;
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&place, sizeof(place)) ||
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
