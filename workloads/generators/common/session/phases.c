// SPDX-License-Identifier: BSD-2-Clause
/* Phase lines for the session, and cuts of the recorder's time bins at their borders; see phases.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "phases.h"

#define CUTS_KEPT	 16
#define PATIENCE_SECONDS 1
#define CUT_NEAR_NS	 20000000

static const char *phases_path;
static int phases_fd = -1, begun_fd = -1;
static struct sockaddr_un borders = { .sun_family = AF_UNIX };
static int64_t cuts[CUTS_KEPT]; /* times of the last cuts; cut i, from 0, is at i % CUTS_KEPT */
static size_t cut_count;

int64_t now_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
		fail_errno("cannot be read", "CLOCK_MONOTONIC");
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int open_to_append(const char *path, const char *what)
{
	int fd;

	if (path == NULL || path[0] == '\0')
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		fail_errno(what, path);
	return fd;
}

void phases_open(void)
{
	const char *socket_path;

	phases_path = getenv("SEEKMETER_PHASES");
	phases_fd = open_to_append(phases_path, "cannot open the phases file ($SEEKMETER_PHASES)");
	begun_fd = open_to_append(getenv("SEEKMETER_PHASES_BEGUN"),
				  "cannot open the file of begun phases ($SEEKMETER_PHASES_BEGUN)");
	socket_path = getenv("SEEKMETER_BORDERS");
	if (socket_path != NULL && strlen(socket_path) < sizeof(borders.sun_path))
		memcpy(borders.sun_path, socket_path, strlen(socket_path) + 1);
}

void phase_announce(const char *name, int64_t start_ns)
{
	char line[256];
	int length;

	if (begun_fd < 0)
		return;
	length = snprintf(line, sizeof(line), "{\"name\":\"%s\",\"start_ns\":%" PRId64 "}\n", name,
			  start_ns);
	/* an error is ignored: the file is for the progress display alone, and phase_done() reports a full disk */
	if (length > 0 && (size_t)length < sizeof(line) &&
	    write(begun_fd, line, (size_t)length) != length)
		return;
}

/* Requests a cut from the recorder. Returns the time of the cut; 0: no cut, and the phase is marked without one. */
static int64_t request_cut(int64_t at_ns)
{
	struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
	int64_t cut_ns = 0;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
	    connect(fd, (const struct sockaddr *)&borders, sizeof(borders)) != 0 ||
	    send(fd, &at_ns, sizeof(at_ns), MSG_NOSIGNAL) != sizeof(at_ns) ||
	    recv(fd, &cut_ns, sizeof(cut_ns), 0) != sizeof(cut_ns))
		cut_ns = 0;
	close(fd);
	return cut_ns;
}

static void wait_until(int64_t time_ns)
{
	const struct timespec until = { .tv_sec = time_ns / 1000000000,
					.tv_nsec = time_ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

/* Requests a cut at at_ns (0: now) and notes its time. Returns the time; 0: no cut. */
static int64_t cut(int64_t at_ns)
{
	int64_t cut_ns;

	if (phases_fd < 0 || borders.sun_path[0] == '\0')
		return 0;
	cut_ns = request_cut(at_ns);
	if (cut_ns != 0)
		cuts[cut_count++ % CUTS_KEPT] = cut_ns;
	return cut_ns;
}

int64_t phase_begin(void)
{
	int64_t cut_ns = cut(0);

	if (cut_ns != 0)
		wait_until(cut_ns);
	return now_ns();
}

int64_t phase_cut(int64_t at_ns)
{
	int64_t cut_ns = cut(at_ns);

	if (cut_ns != 0)
		return cut_ns;
	return at_ns != 0 ? at_ns : now_ns();
}

void phase_was_cut(int64_t cut_ns)
{
	if (cut_ns != 0)
		cuts[cut_count++ % CUTS_KEPT] = cut_ns;
}

/* Returns the last cut at or before time_ns; 0: none. */
static int64_t cut_before(int64_t time_ns)
{
	int64_t last_ns = 0;

	for (size_t i = cut_count > CUTS_KEPT ? cut_count - CUTS_KEPT : 0; i < cut_count; i++)
		if (cuts[i % CUTS_KEPT] <= time_ns)
			last_ns = cuts[i % CUTS_KEPT];
	return last_ns;
}

/* Returns the first cut at or after time_ns, or requests a cut now; 0: none. */
static int64_t cut_after(int64_t time_ns)
{
	for (size_t i = cut_count > CUTS_KEPT ? cut_count - CUTS_KEPT : 0; i < cut_count; i++)
		if (cuts[i % CUTS_KEPT] >= time_ns)
			return cuts[i % CUTS_KEPT];
	return cut(0);
}

static void write_phase(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops,
			uint64_t bytes, bool alone)
{
	char line[512], around[96] = "";
	int64_t from_ns, until_ns;
	bool near;
	int length;

	if (phases_fd < 0)
		return;
	until_ns = cut_after(end_ns);
	from_ns = cut_before(start_ns);
	/* Between the phase and a cut farther away, the workload may have done other work. */
	near = from_ns >= start_ns - CUT_NEAR_NS && until_ns <= end_ns + CUT_NEAR_NS;
	if (from_ns != 0 && until_ns != 0 && (near || alone))
		snprintf(around, sizeof(around), ",\"from_ns\":%" PRId64 ",\"until_ns\":%" PRId64,
			 from_ns, until_ns);
	length = snprintf(line, sizeof(line),
			  "{\"name\":\"%s\",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64
			  ",\"ops\":%" PRIu64 ",\"bytes\":%" PRIu64 "%s}\n",
			  name, start_ns, end_ns, ops, bytes, around);
	if (length < 0 || (size_t)length >= sizeof(line))
		fail(EXIT_RUN_FAILED, "phase name '%s' is too long; shorten it in the generator",
		     name);
	if (write(phases_fd, line, (size_t)length) != length)
		fail_errno("cannot write the phase", phases_path);
	if (until_ns != 0) /* keeps the workload's next events out of this phase's last bin */
		wait_until(until_ns);
}

void phase_done(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops, uint64_t bytes)
{
	write_phase(name, start_ns, end_ns, ops, bytes, false);
}

void phase_done_alone(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops,
		      uint64_t bytes)
{
	write_phase(name, start_ns, end_ns, ops, bytes, true);
}
