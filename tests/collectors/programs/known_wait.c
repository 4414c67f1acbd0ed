// SPDX-License-Identifier: BSD-2-Clause
/*
 * Waits of a known length for locks whose holder is known, and known to be doing one thing.
 *
 *   known_wait SCENARIO DIR HOLD_MS     in an empty DIR
 *
 * The holder sleeps or is kept from running with the lock taken; when all others wait it goes on like that for
 * HOLD_MS. How it is made to: it writes from (or lists a directory into) a page that userfaultfd withholds, so the
 * kernel stops in the middle of the call.
 *
 *   pipe      the holder writes to a pipe; the waiter too
 *   file      the holder writes to a file; the waiter too
 *   runnable  the same, but the page has been given before the waiter comes: the holder could go on if its only CPU
 *             were not taken by a real-time thread
 *   chain     the holder writes to the file d/x; "middle" removes it, so it waits for the file with d locked;
 *             the waiter makes a directory in d
 *   chain3    and "third" renames something from elsewhere into d, with the file system's rename mutex taken;
 *             "fourth" waits for that to rename something else
 *   killed    the holder lists d; "middle" makes something in it; the waiter, which is another process, wants
 *             to list it too, and is killed after HOLD_MS
 *
 * Prints one JSON object: for each of those names, its call's begin and end; and when the wait was let end.
 * Exit 77: no userfaultfd.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "actors.h"

#define PAGE 4096

static char *withheld;
static int uffd, ends[2], file, hold_ms;
static volatile int hog_runs, hog_ends;

static void put_back(void)
{
	/* nothing outlives the process */
}

/* Until it has left its CPU, whatever wakes it. */
static void until_it_sleeps(int tid)
{
	unsigned long long end_ns = now_ns() + PATIENCE_S * 1000000000ULL;

	while (sleeps_in_call(tid) < 0) {
		if (now_ns() > end_ns) {
			errno = ETIMEDOUT;
			die("it does not sleep");
		}
		usleep(1000);
	}
}

/* The holder sleeps in the fault, its lock taken, when this returns. */
static void start_holding(long (*call)(void), int cpu)
{
	struct actor *holder = start("holder", call, cpu);
	struct uffd_msg message;

	if (read(uffd, &message, sizeof(message)) != sizeof(message))
		die("no fault");
	until_it_sleeps(holder->tid);
}

static void withhold(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	withheld = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)withheld;
	range.range.len = PAGE;
	if (uffd < 0 || withheld == MAP_FAILED || ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &range)) {
		perror("known_wait: userfaultfd");
		exit(77);
	}
}

static unsigned long long give(void)
{
	struct uffdio_zeropage page = { .range = { (unsigned long)withheld, PAGE } };
	unsigned long long given_ns = now_ns();

	if (ioctl(uffd, UFFDIO_ZEROPAGE, &page))
		die("give");
	return given_ns;
}

static long write_withheld_to_pipe(void)
{
	return write(ends[1], withheld, 16);
}

static long write_to_pipe(void)
{
	return write(ends[1], "waiter", 6);
}

static long write_withheld_to_file(void)
{
	return pwrite(file, withheld, PAGE, 0);
}

static long write_to_file(void)
{
	return pwrite(file, "waiter", 6, 0);
}

static long list_into_withheld(void)
{
	return syscall(SYS_getdents64, file, withheld, PAGE);
}

static long remove_x(void)
{
	return unlink("d/x");
}

static long make_in_d(void)
{
	return mkdir("d/new", 0755);
}

static long rename_into_d(void)
{
	return rename("e/a", "d/a");
}

static long rename_elsewhere(void)
{
	return rename("e/b", "f/b");
}

static void *hog(void *unused)
{
	struct sched_param first = { .sched_priority = 1 };

	pin(1);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO");
	hog_runs = 1;
	while (!hog_ends)
		;
	return unused;
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, O_RDWR | flags, 0644);

	if (fd < 0)
		die(path);
	return fd;
}

static void make(const char *dir, const char *in_it)
{
	if (mkdir(dir, 0755) || (in_it && mknod(in_it, S_IFREG | 0644, 0)))
		die(dir);
}

static unsigned long long held(void)
{
	usleep(hold_ms * 1000);
	return give();
}

static unsigned long long runnable(void)
{
	pthread_t thread;
	unsigned long long end_ns;

	start_holding(write_withheld_to_file, 1);
	pin(0);
	if (pthread_create(&thread, NULL, hog, NULL))
		die("pthread_create");
	while (!hog_runs)
		usleep(100);
	give();
	start_waiting("waiter", write_to_file);
	usleep(hold_ms * 1000);
	end_ns = now_ns();
	hog_ends = 1;
	pthread_join(thread, NULL);
	return end_ns;
}

static unsigned long long chain(int longer)
{
	make("d", "d/x");
	make("e", "e/a");
	make("f", "e/b");
	file = open_file("d/x", 0);
	start_holding(write_withheld_to_file, -1);
	start_waiting("middle", remove_x);
	if (longer) {
		start_waiting("third", rename_into_d);
		start_waiting("fourth", rename_elsewhere);
	} else {
		start_waiting("waiter", make_in_d);
	}
	return held();
}

static unsigned long long killed(void)
{
	unsigned long long killed_ns, *shared;
	pid_t child;

	make("d", "d/x");
	file = open("d", O_RDONLY | O_DIRECTORY);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (file < 0 || shared == MAP_FAILED)
		die("d");
	start_holding(list_into_withheld, -1);
	start_waiting("middle", make_in_d);
	child = fork();
	if (child == 0) {
		char names[PAGE];
		int again = open("d", O_RDONLY | O_DIRECTORY);

		prctl(PR_SET_NAME, "waiter");
		*shared = now_ns();
		syscall(SYS_getdents64, again, names, sizeof(names));
		_exit(1); /* never came to be killed */
	}
	until_it_waits(child);
	usleep(hold_ms * 1000);
	killed_ns = now_ns();
	if (child < 0 || kill(child, SIGKILL) || waitpid(child, NULL, 0) != child)
		die("the waiter");
	actors[n_actors++] =
		(struct actor){ .name = "waiter", .begin_ns = *shared, .end_ns = now_ns() };
	usleep(hold_ms * 1000); /* the others wait for twice as long */
	give();
	return killed_ns;
}

int main(int argc, char **argv)
{
	unsigned long long ended_ns = 0;
	const char *scenario;

	if (argc != 4)
		return 2;
	scenario = argv[1];
	hold_ms = atoi(argv[3]);
	withhold();
	if (chdir(argv[2]) || pipe(ends))
		die(argv[2]);
	if (!strcmp(scenario, "pipe")) {
		start_holding(write_withheld_to_pipe, -1);
		start_waiting("waiter", write_to_pipe);
		ended_ns = held();
	} else if (!strcmp(scenario, "file")) {
		file = open_file("x", O_CREAT);
		start_holding(write_withheld_to_file, -1);
		start_waiting("waiter", write_to_file);
		ended_ns = held();
	} else if (!strcmp(scenario, "runnable")) {
		file = open_file("x", O_CREAT);
		ended_ns = runnable();
	} else if (!strcmp(scenario, "chain") || !strcmp(scenario, "chain3")) {
		ended_ns = chain(!strcmp(scenario, "chain3"));
	} else if (!strcmp(scenario, "killed")) {
		ended_ns = killed();
	} else {
		return 2;
	}
	finish(ended_ns);
	return 0;
}
