// SPDX-License-Identifier: BSD-2-Clause
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "punctual.h"
#include "record.h"
#include "server.h"

#define LINE_MOST 256

/* Text that this server made itself, but for errors of files: quotes and control characters are left out. */
static void print_text(const char *name, const char *text)
{
	printf(",\"%s\":\"", name);
	for (; *text; text++) {
		if (*text != '"' && *text != '\\' && (unsigned char)*text >= ' ')
			putchar(*text);
	}
	putchar('"');
}

static void end_line(void)
{
	puts("}");
	/* Nobody reads any more: the end of stdin will say so, too. */
	if (fflush(stdout))
		clearerr(stdout);
}

void control_error(const char *error)
{
	printf("{\"ready\":false");
	print_text("error", error);
	end_line();
}

/* "name":true, or false and why. */
static void print_fact(const char *name, const char *why_not)
{
	printf(",\"%s\":%s", name, why_not[0] ? "false" : "true");
	if (why_not[0]) {
		char of[32];

		snprintf(of, sizeof(of), "%s_why", name);
		print_text(of, why_not);
	}
}

static void say_ready(const struct service *service, const struct punctuality *punctuality)
{
	printf("{\"ready\":true,\"transport\":\"%s\",\"cpus\":%d,\"spin_ns\":%" PRId64
	       ",\"memory_bytes\":%" PRIu64,
	       service->transport->name, punctuality->cpus, service->spin_ns,
	       (uint64_t)service->pages.count * PAGE_BYTES);
	if (service->transport->device[0])
		print_text("device", service->transport->device);
	print_fact("realtime", punctuality->realtime);
	print_fact("locked", punctuality->locked);
	print_fact("awake", punctuality->awake);
	print_fact("io_flusher", punctuality->flusher);
	print_fact("oom_spared", punctuality->spared);
	end_line();
}

static void say_error(const char *error)
{
	printf("{\"ok\":false");
	print_text("error", error);
	end_line();
}

static void say_stats(struct service *service)
{
	static struct lateness late;
	struct timespec cpu = { 0 };
	struct stat media = { 0 };
	uint64_t requests, flushes, for_room, for_media, unknown, cached;
	double answer_ns, wake_ns;
	int media_error;

	pthread_mutex_lock(&service->lock);
	late = service->lateness;
	requests = service->requests;
	flushes = service->flushes;
	for_room = service->waited_for_room;
	for_media = service->waited_for_media;
	unknown = service->dirty.unknown_sectors;
	cached = service->dirty.cached_sectors;
	media_error = service->media_error;
	answer_ns = service->answer_ns;
	wake_ns = service->wake_ns;
	pthread_mutex_unlock(&service->lock);
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) || fstat(service->media, &media))
		fprintf(stderr, "drive-server: stats: %s\n", strerror(errno));
	printf("{\"requests\":%" PRIu64 ",\"flushes\":%" PRIu64 ",\"replies\":%" PRIu64
	       ",\"late_p50_ns\":%" PRId64 ",\"late_p99_ns\":%" PRId64 ",\"late_max_ns\":%" PRId64
	       ",\"late_mean_ns\":%" PRId64 ",\"early_max_ns\":%" PRId64
	       ",\"late_over_500us\":%" PRIu64,
	       requests, flushes, late.replies, lateness_share_ns(&late, 0.5),
	       lateness_share_ns(&late, 0.99), late.most_ns,
	       late.replies ? late.sum_ns / (int64_t)late.replies : 0, -late.earliest_ns,
	       late.over_500us);
	printf(",\"cpu_ns\":%" PRId64 ",\"media_bytes\":%" PRId64 ",\"cached_bytes\":%" PRIu64
	       ",\"rows_written\":%" PRIu64 ",\"rows_lost\":%" PRIu64
	       ",\"waited_for_room\":%" PRIu64 ",\"waited_for_media\":%" PRIu64
	       ",\"unknown_sectors\":%" PRIu64 ",\"answer_ns\":%.0f,\"wake_ns\":%.0f",
	       (int64_t)(cpu.tv_sec * NS_PER_S + cpu.tv_nsec),
	       (int64_t)media.st_blocks * SECTOR_BYTES, cached * SECTOR_BYTES, record_written(),
	       record_lost(), for_room, for_media, unknown, answer_ns, wake_ns);
	if (media_error)
		print_text("media_error", strerror(media_error));
	end_line();
}

static void say_cut(struct service *service)
{
	eventfd_t count;
	struct cut cut;

	if (eventfd_read(service->news, &count))
		return;
	pthread_mutex_lock(&service->lock);
	cut = service->cut;
	service->cut.is_news = false;
	pthread_mutex_unlock(&service->lock);
	if (!cut.is_news)
		return;
	/* After this line the media file is what the platter holds. */
	if (media_drain(service))
		fprintf(stderr, "drive-server: the media file is not what the platter holds\n");
	printf("{\"cut_ns\":%" PRId64 ",\"at_request\":%" PRIu64 ",\"dirty_bytes\":%" PRIu64
	       ",\"kept_bytes\":%" PRIu64 ",\"lost_bytes\":%" PRIu64 ",\"torn_sector\":",
	       cut.cut_ns, cut.at_request, cut.dirty_bytes, cut.kept_bytes,
	       cut.dirty_bytes - cut.kept_bytes);
	if (cut.torn_sector < 0)
		printf("null");
	else
		printf("%" PRId64, cut.torn_sector);
	end_line();
}

/* "now", "at=1.5", "request=7", … False: something else. */
static bool parse_when(const struct service *service, const char *text, struct cut *cut)
{
	static const struct {
		const char *name;
		enum cut_when when;
	} counted[] = { { "request=", CUT_AT_REQUEST },
			{ "flush=", CUT_AT_FLUSH },
			{ "commit=", CUT_IN_COMMIT } };
	char *end;

	cut->when = CUT_AT;
	cut->at_ns = now_ns();
	if (!strcmp(text, "now"))
		return true;
	if (!strcmp(text, "with")) {
		cut->when = CUT_WITH_OTHERS;
		return service->power_lost_ns != NULL;
	}
	if (!strncmp(text, "at=", 3)) {
		double seconds = strtod(text + 3, &end);

		if (end == text + 3 || *end || !(seconds >= 0 && seconds < 1e9))
			return false; /* also "nan", which is no number of ns */
		cut->at_ns += (int64_t)(seconds * 1e9);
		return true;
	}
	for (size_t i = 0; i < sizeof(counted) / sizeof(*counted); i++) {
		size_t length = strlen(counted[i].name);
		unsigned long long number;

		if (strncmp(text, counted[i].name, length))
			continue;
		number = strtoull(text + length, &end, 10);
		cut->when = counted[i].when;
		cut->after = number +
			     (cut->when == CUT_AT_REQUEST ? service->requests : service->flushes);
		return end != text + length && !*end && number > 0 && number < 1ULL << 62;
	}
	return false;
}

static bool parse_keeps(const char *text, struct cut *cut)
{
	static const char *const names[] = {
		[CUT_LOST] = "lost", [CUT_SOME] = "some", [CUT_ALL] = "all"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(text, names[i])) {
			cut->keeps = (enum cut_keeps)i;
			return true;
		}
	}
	return false;
}

static void arm_cut(struct service *service, char **words, int count)
{
	struct cut cut;
	char *end;
	bool has_power, is_valid = count == 4 || (count == 5 && !strcmp(words[4], "torn"));

	pthread_mutex_lock(&service->lock);
	cut = service->cut;
	cut.tears = count == 5;
	cut.in_commit = false;
	is_valid = is_valid && parse_when(service, words[1], &cut) && parse_keeps(words[2], &cut);
	if (is_valid) {
		cut.seed = strtoull(words[3], &end, 10);
		is_valid = end != words[3] && !*end;
	}
	has_power = service->has_power;
	if (is_valid && has_power)
		service->cut = cut;
	pthread_mutex_unlock(&service->lock);
	if (!is_valid) {
		say_error(
			"cut: now|with|at=SECONDS|request=N|flush=N|commit=N, then lost|some|all, SEED, and torn");
	} else if (!has_power) {
		say_error("cut: the power is off");
	} else {
		/* First, as the cut's own line follows. */
		printf("{\"armed\":true");
		end_line();
		service_wake(service);
	}
}

static void power_on(struct service *service)
{
	int error = media_drain(service);

	if (error) {
		say_error("power on: the media file could not be written");
		return;
	}
	pthread_mutex_lock(&service->lock);
	if (!service->has_power) {
		drive_reset(service->drive);
		if (service->power_lost_ns)
			atomic_store(service->power_lost_ns, 0);
		service->has_power = true;
	}
	pthread_mutex_unlock(&service->lock);
	service_wake(service);
	printf("{\"power\":true");
	end_line();
}

static void set_dev(const char *text)
{
	unsigned int major, minor;
	char rest;

	if (sscanf(text, "%u:%u%c", &major, &minor, &rest) != 2 || major >= 1U << 12 ||
	    minor >= 1U << 20) {
		say_error("kernel: MAJOR:MINOR of the disk");
		return;
	}
	record_set_dev(major << 20 | minor);
	printf("{\"kernel\":true");
	end_line();
}

/* False: the server ends. */
static bool obey(struct service *service, char *line)
{
	char *words[6];
	char *state;
	int count = 0;

	for (char *word = strtok_r(line, " ", &state); word && count < 6;
	     word = strtok_r(NULL, " ", &state))
		words[count++] = word;
	if (!count)
		return true;
	if (!strcmp(words[0], "stats") && count == 1) {
		record_end();
		say_stats(service);
	} else if (!strcmp(words[0], "kernel") && count == 2) {
		set_dev(words[1]);
	} else if (!strcmp(words[0], "cut") && count >= 4) {
		arm_cut(service, words, count);
	} else if (!strcmp(words[0], "power") && count == 2 && !strcmp(words[1], "on")) {
		power_on(service);
	} else if (!strcmp(words[0], "record") && count == 2 && !strcmp(words[1], "off")) {
		record_close();
		printf("{\"record\":false");
		end_line();
	} else if (!strcmp(words[0], "stop") && count == 1) {
		if (service->transport->stop)
			service->transport->stop(service->transport);
		record_end();
		say_stats(service);
		return false;
	} else {
		say_error("unknown command: stats, kernel, cut, power on, record off, stop");
	}
	return true;
}

int control_run(struct service *service, const struct punctuality *punctuality)
{
	struct pollfd files[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				  { .fd = service->news, .events = POLLIN } };
	char text[LINE_MOST];
	size_t length = 0;

	say_ready(service, punctuality);
	for (;;) {
		ssize_t got;
		char *line_end;

		if (poll(files, 2, -1) < 0 && errno != EINTR)
			return 1;
		if (files[1].revents & POLLIN)
			say_cut(service);
		if (!(files[0].revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		got = read(STDIN_FILENO, text + length, sizeof(text) - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			record_end();
			return 0;
		}
		length += (size_t)got;
		while ((line_end = memchr(text, '\n', length))) {
			size_t used = (size_t)(line_end - text) + 1;

			*line_end = '\0';
			if (!obey(service, text))
				return 0;
			length -= used;
			memmove(text, text + used, length);
		}
		if (length == sizeof(text)) {
			length = 0;
			say_error("a command is too long");
		}
	}
}
