// SPDX-License-Identifier: BSD-2-Clause
/* One step of aim7's ramp: forks the tasks, releases them together, and times them to the last end; see tasks.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "tasks.h"

static void directory_name(unsigned int number, char name[32])
{
	snprintf(name, 32, "task-%04u", number);
}

static void make_directory(struct task *task, int top_fd)
{
	char name[32];

	directory_name(task->number, name);
	if (mkdirat(top_fd, name, 0755) != 0)
		fail_errno("cannot make the directory", name);
	task->dir_fd = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (task->dir_fd < 0)
		fail_errno("cannot open the directory", name);
	make_disk_file(task);
}

static void remove_directory(const struct task *task, int top_fd)
{
	char name[32];

	directory_name(task->number, name);
	if (unlinkat(task->dir_fd, "disk", 0) != 0)
		fail_errno("cannot remove", "disk");
	if (unlinkat(top_fd, name, AT_REMOVEDIR) != 0)
		fail_errno("cannot remove", name);
}

/* Memory that the tasks share with the parent: their times and bytes. */
struct shared {
	int64_t start_ns[TASKS_MAX];
	int64_t end_ns[TASKS_MAX];
	uint64_t bytes[TASKS_MAX];
	_Atomic unsigned int
		ended; /* tasks that have done their mix; the last of these tasks cuts the recorder's bins */
	int64_t cut_ns;
};

/*
 * State of one step. Two pipes synchronise it: each task closes its end of `ready` when it is ready; the parent closes
 * `start` when all tasks may start.
 */
struct running {
	const struct mix *mix;
	int top_fd;
	unsigned int tasks;
	struct shared *shared;
	pid_t *pids;
	int ready[2];
	int start[2];
};

/* Waits until all writers of the pipe have closed it. */
static void wait_for_close(int fd)
{
	char byte;

	while (read(fd, &byte, 1) < 0)
		if (errno != EINTR)
			fail_errno("cannot be waited for", "the other tasks");
}

static void run_task(const struct running *step, unsigned int number, uint64_t seed)
{
	const struct mix *mix = step->mix;
	struct shared *shared = step->shared;
	struct task task = { .number = number, .rng.state = seed };
	struct entry order[JOBS_MAX];

	memcpy(order, mix->jobs, sizeof(order));
	for (unsigned int i = mix->n - 1; i > 0; i--) {
		unsigned int other = (unsigned int)rng_below(&task.rng, i + 1);
		struct entry swapped = order[i];

		order[i] = order[other];
		order[other] = swapped;
	}
	make_directory(&task, step->top_fd);
	close(step->ready[1]);
	wait_for_close(step->start[0]);
	shared->start_ns[number] = now_ns();
	for (unsigned int i = 0; i < mix->n; i++)
		order[i].job->run(&task, order[i].units, order[i].job->variant);
	shared->end_ns[number] = now_ns();
	if (atomic_fetch_add(&shared->ended, 1) + 1 == step->tasks)
		shared->cut_ns = phase_cut(0);
	shared->bytes[number] = task.bytes;
	verify_disk_file(&task);
	remove_directory(&task, step->top_fd);
	exit(0);
}

static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) != 0)
		fail_errno("cannot be made", "a pipe");
}

/* Kills the tasks that still run. A pid of 0: the task was waited for, and another process may have its pid. */
static void end_tasks(const pid_t *pids, unsigned int tasks)
{
	for (unsigned int i = 0; i < tasks; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
}

/* Waits for all tasks. The first task that fails ends all others; it has printed its error (fail_as_one). */
static void wait_for_tasks(pid_t *pids, unsigned int tasks)
{
	for (unsigned int left = tasks; left > 0; left--) {
		unsigned int i = 0;
		int status;
		pid_t pid = waitpid(-1, &status, 0);

		if (pid < 0)
			fail_errno("cannot be waited for", "a task");
		while (pids[i] != pid)
			i++;
		pids[i] = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		end_tasks(pids, tasks);
		if (WIFEXITED(status))
			fail(EXIT_RUN_FAILED, "aim7: a task failed without an error message");
		fail(EXIT_RUN_FAILED, "aim7: a task was ended by signal %d; look in dmesg (MEM=?)",
		     WTERMSIG(status));
	}
}

static void start_tasks(const struct running *step, uint64_t seed)
{
	struct rng seeds = { .state = seed + step->tasks };
	pid_t parent = getpid();

	fflush(stdout);
	for (unsigned int i = 0; i < step->tasks; i++) {
		uint64_t own_seed = rng_next(&seeds);

		step->pids[i] = fork();
		if (step->pids[i] < 0) {
			int error = errno;

			end_tasks(step->pids, i);
			errno = error;
			fail_errno("cannot be started (give fewer with -N)", "the tasks");
		}
		if (step->pids[i] == 0) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
				_exit(EXIT_RUN_FAILED);
			close(step->ready[0]);
			close(step->start[1]);
			run_task(step, i, own_seed);
		}
	}
}

struct step run_step(const struct mix *mix, int top_fd, unsigned int tasks, uint64_t seed)
{
	struct step step = { .tasks = tasks, .rounds = 1 };
	int64_t start_ns = INT64_MAX;
	int64_t end_ns = 0;
	uint64_t bytes = 0;
	struct running running = { .mix = mix, .top_fd = top_fd, .tasks = tasks };
	char name[32];

	running.shared = mmap(NULL, sizeof(*running.shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (running.shared == MAP_FAILED)
		fail_errno("cannot be mapped", "memory");
	running.pids = must_alloc(calloc(tasks, sizeof(*running.pids)));
	make_pipe(running.ready);
	make_pipe(running.start);
	snprintf(name, sizeof(name), "%u tasks", tasks);
	phase_announce(name, now_ns());
	own_cpu_begin();
	start_tasks(&running, seed);
	close(running.ready[1]);
	close(running.start[0]);
	wait_for_close(
		running.ready[0]); /* all tasks have closed their ends: they are ready or dead */
	close(running.ready[0]);
	phase_begin();
	close(running.start[1]);
	wait_for_tasks(running.pids, tasks);
	step.own_cpu_pct = own_cpu_end(tasks);
	free(running.pids);
	for (unsigned int i = 0; i < tasks; i++) {
		start_ns = running.shared->start_ns[i] < start_ns ? running.shared->start_ns[i]
								  : start_ns;
		end_ns = running.shared->end_ns[i] > end_ns ? running.shared->end_ns[i] : end_ns;
		bytes += running.shared->bytes[i];
	}
	phase_was_cut(running.shared->cut_ns);
	phase_done(name, start_ns, end_ns, (uint64_t)tasks * mix->n, bytes);
	step.seconds = (double)(end_ns - start_ns) / 1e9;
	if (munmap(running.shared, sizeof(*running.shared)) != 0)
		fail_errno("cannot be unmapped", "memory");
	return step;
}
