// SPDX-License-Identifier: BSD-2-Clause
/* A timer on each CPU that runs a BPF program; see cpu_timers.h. */
#include "cpu_timers.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "collector.h"
#include "common/records.h"

#define ONLINE "/sys/devices/system/cpu/online"

struct cpu_timer {
	struct bpf_link *link; /* NULL: none, the CPU is offline */
	int fd;
	uint64_t ran_ns; /* as last read */
};

/* 0, or an errno. */
static int start_timer(struct cpu_timers *of, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = SAMPLE_PERIOD_NS,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	struct bpf_link *link;
	int err;

	if (fd < 0)
		return errno;
	link = bpf_program__attach_perf_event(of->program, fd);
	if (!link) {
		err = errno;
		close(fd);
		return err;
	}
	of->timers[cpu] = (struct cpu_timer){ .link = link, .fd = fd };
	return 0;
}

/* Adds the time since the last read; false: the timer stands still. */
static bool read_timer(struct cpu_timers *of, struct cpu_timer *timer)
{
	uint64_t now_ns;
	bool moved = false;

	if (read(timer->fd, &now_ns, sizeof(now_ns)) == sizeof(now_ns)) {
		moved = now_ns > timer->ran_ns;
		of->ran_ns += now_ns - timer->ran_ns;
		timer->ran_ns = now_ns;
	}
	return moved;
}

static void stop_timer(struct cpu_timers *of, struct cpu_timer *timer)
{
	if (!timer->link)
		return;
	read_timer(of, timer);
	bpf_link__destroy(timer->link); /* closes the event */
	timer->link = NULL;
}

/* Parses "0-3,5" into online[cpu]; false: the file can't be read. */
static bool read_online(bool *online, int cpus)
{
	FILE *in = fopen(ONLINE, "re");
	int first, last;
	char then = ',';

	if (!in)
		return false;
	memset(online, 0, cpus);
	while (then == ',' && fscanf(in, "%d", &first) == 1) {
		last = first;
		then = fgetc(in);
		if (then == '-' && fscanf(in, "%d", &last) == 1)
			then = fgetc(in);
		for (int cpu = first; cpu >= 0 && cpu <= last && cpu < cpus; cpu++)
			online[cpu] = true;
	}
	fclose(in);
	return true;
}

/* Starts a timer on each online CPU and closes those of offline CPUs. Returns 0, or the errno of the failed call. */
static int follow_cpus(struct cpu_timers *of, bool first)
{
	bool online[BIN_CPUS];
	int err = 0, failed;

	if (!read_online(online, of->cpus))
		return errno;
	for (int cpu = 0; cpu < of->cpus; cpu++) {
		struct cpu_timer *timer = &of->timers[cpu];

		/* A timer stops for good if its CPU goes offline, also when the CPU comes back. */
		if (timer->link && (!read_timer(of, timer) || !online[cpu])) {
			stop_timer(of, timer);
			reason_add(of->state->notes,
				   "CPUs that went offline while they were sampled", 1);
		}
		if (timer->link)
			continue;
		failed = online[cpu] ? start_timer(of, cpu) : 0;
		if (first && !online[cpu])
			reason_add(of->state->notes, "CPUs offline when sampling began", 1);
		if (failed && failed != ENODEV &&
		    failed != ENXIO) /* ENODEV and ENXIO: the CPU has just gone offline */
			err = failed;
	}
	return err;
}

int cpu_timers_start(struct cpu_timers *timers, const struct bpf_program *program, int cpus,
		     struct collector_state *state)
{
	*timers = (struct cpu_timers){ .program = program, .cpus = cpus, .state = state };
	timers->timers = calloc(cpus, sizeof(*timers->timers));
	if (!timers->timers)
		return ENOMEM;
	timers->next_check_ns = monotonic_ns() + NS_PER_SEC;
	return follow_cpus(timers, true);
}

void cpu_timers_follow(struct cpu_timers *timers)
{
	uint64_t now = monotonic_ns();

	if (!timers->timers || now < timers->next_check_ns)
		return;
	/* Timers worked at the start, so a failure now is tried again. */
	if (follow_cpus(timers, false))
		reason_add(timers->state->notes, "CPU sampling could not go on on a CPU", 1);
	timers->next_check_ns = now + NS_PER_SEC;
}

void cpu_timers_stop(struct cpu_timers *timers)
{
	for (int cpu = 0; timers->timers && cpu < timers->cpus; cpu++)
		stop_timer(timers, &timers->timers[cpu]);
}

void cpu_timers_free(struct cpu_timers *timers)
{
	cpu_timers_stop(timers);
	free(timers->timers);
	timers->timers = NULL;
}

uint64_t cpu_timers_left_out(const struct cpu_timers *timers, uint64_t samples)
{
	uint64_t due = timers->ran_ns / SAMPLE_PERIOD_NS;

	return due > samples ? due - samples : 0;
}
