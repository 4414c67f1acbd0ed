// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads whose time is known: what each did, from when to when, and what the kernel counted of it.
 *
 *   known_times MODE AMOUNT [FILE]
 *
 *   sleep     AMOUNT ms of sleep, in four parts
 *   hog       AMOUNT ms on a CPU
 *   hogs      two threads that want the same CPU, AMOUNT ms each
 *   pingpong  AMOUNT rounds of two threads over two pipes
 *   futex     a thread that waits for a mutex whose holder sleeps for AMOUNT ms
 *   child     wait4() for a child that sleeps for AMOUNT ms
 *   read      AMOUNT reads of 4 KiB, past the page cache, of FILE
 *   fsync     AMOUNT times 4 KiB are written to FILE and synced
 *   write     AMOUNT MiB are written to FILE through the page cache
 *   chain2    main waits in a pipe for "second", which sleeps for AMOUNT ms; then main computes as long
 *   chain3    main waits for "second", which waits for "third"; third sleeps, then second computes, then main
 *             does: AMOUNT ms each
 *   chainread main waits for "second", which reads AMOUNT times as in "read"
 *
 * Prints one JSON object. "threads": name, tid, first and last moment, and the kernel's counts at the last one;
 * "pieces": what a thread did, and when. What the thread sleeps in is in the name of the piece.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "taskstats.h"

#define BLOCK	    4096
#define MOST_PIECES 4096
#define MOST_NAMED  4

struct known_thread {
	const char *name;
	void (*body)(void);
	pthread_t thread;
	int tid;
	unsigned long long begin_ns, end_ns;
	struct thread_counts counts;
};

struct piece {
	const char *thread, *what;
	unsigned long long begin_ns, end_ns;
};

static struct known_thread threads[MOST_NAMED];
static struct piece pieces[MOST_PIECES];
static int n_threads, n_pieces, amount, ping[2], pong[2], chain[2], file = -1;
static _Thread_local struct known_thread *me;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *block;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "known_times: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void did(const char *what, unsigned long long begin_ns)
{
	int number = __atomic_fetch_add(&n_pieces, 1, __ATOMIC_RELAXED);

	if (number < MOST_PIECES)
		pieces[number] = (struct piece){ me->name, what, begin_ns, now_ns() };
}

static void sleep_for(int ms)
{
	unsigned long long begin_ns = now_ns();

	usleep(ms * 1000);
	did("sleep", begin_ns);
}

/* On a CPU for so long by the thread's own CPU clock, however long that takes. */
static void compute_for(int ms)
{
	unsigned long long begin_ns = now_ns();
	struct timespec used;
	long long end_ns;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	end_ns = used.tv_sec * 1000000000LL + used.tv_nsec + ms * 1000000LL;
	do {
		for (volatile int i = 0; i < 1000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	} while (used.tv_sec * 1000000000LL + used.tv_nsec < end_ns);
	did("compute", begin_ns);
}

static void tell(int fd)
{
	if (write(fd, "x", 1) != 1)
		die("write to a pipe");
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		die("read from a pipe");
}

static void wait_for(int fd)
{
	unsigned long long begin_ns = now_ns();

	hear(fd);
	did("pipe", begin_ns);
}

static void read_blocks(void)
{
	for (int i = 0; i < amount; i++) {
		unsigned long long begin_ns = now_ns();

		if (pread(file, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			die("read");
		did("read", begin_ns);
	}
}

static void sync_blocks(void)
{
	for (int i = 0; i < amount; i++) {
		unsigned long long begin_ns;

		if (pwrite(file, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			die("write");
		begin_ns = now_ns();
		if (fsync(file))
			die("fsync");
		did("fsync", begin_ns);
	}
}

static void write_file(void)
{
	unsigned long long begin_ns = now_ns();

	for (int i = 0; i < amount * (1 << 20) / BLOCK; i++)
		if (write(file, block, BLOCK) != BLOCK)
			die("write");
	did("write", begin_ns);
}

static void *run(void *argument)
{
	me = argument;
	me->begin_ns = now_ns();
	me->tid = (int)syscall(SYS_gettid);
	prctl(PR_SET_NAME, me->name);
	me->body();
	me->end_ns = now_ns(); /* before the counts, whose taking belongs to what follows */
	if (count_myself(me->tid, &me->counts))
		die("taskstats");
	return NULL;
}

static struct known_thread *start(const char *name, void (*body)(void))
{
	struct known_thread *thread = &threads[n_threads++];

	*thread = (struct known_thread){ .name = name, .body = body };
	if (pthread_create(&thread->thread, NULL, run, thread))
		die("pthread_create");
	return thread;
}

static void sleep_in_parts(void)
{
	for (int i = 0; i < 4; i++)
		sleep_for(amount / 4);
}

static void hog(void)
{
	compute_for(amount);
}

static void answer(void)
{
	for (int i = 0; i < amount; i++) {
		hear(ping[0]);
		tell(pong[1]);
	}
}

static void call_and_hear(void)
{
	unsigned long long begin_ns = now_ns();

	for (int i = 0; i < amount; i++) {
		tell(ping[1]);
		hear(pong[0]);
	}
	did("rounds", begin_ns);
}

static void hold(void)
{
	pthread_mutex_lock(&mutex);
	tell(ping[1]);
	sleep_for(amount);
	pthread_mutex_unlock(&mutex);
}

static void want(void)
{
	unsigned long long begin_ns;

	wait_for(ping[0]);
	begin_ns = now_ns();
	pthread_mutex_lock(&mutex);
	did("futex", begin_ns);
	pthread_mutex_unlock(&mutex);
}

static void have_a_child(void)
{
	unsigned long long begin_ns = now_ns();
	pid_t child = fork();

	if (child == 0) {
		usleep(amount * 1000);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		die("child");
	did("child", begin_ns);
}

static void third(void)
{
	hear(chain[0]);
	sleep_for(amount);
	tell(ping[1]);
}

static void second_of_three(void)
{
	tell(chain[1]);
	wait_for(ping[0]);
	compute_for(amount);
	tell(pong[1]);
}

static void second_of_two(void)
{
	sleep_for(amount);
	tell(pong[1]);
}

static void second_that_reads(void)
{
	read_blocks();
	tell(pong[1]);
}

static void wait_and_compute(void)
{
	wait_for(pong[0]);
	compute_for(amount);
}

static void only_wait(void)
{
	wait_for(pong[0]);
}

static const struct mode {
	const char *name;
	void (*main)(void);
	void (*second)(void), (*third)(void);
	int flags; /* of FILE; 0: none */
} modes[] = {
	{ "sleep", sleep_in_parts, NULL, NULL, 0 },
	{ "hog", hog, NULL, NULL, 0 },
	{ "hogs", hog, hog, NULL, 0 },
	{ "pingpong", call_and_hear, answer, NULL, 0 },
	{ "futex", want, hold, NULL, 0 },
	{ "child", have_a_child, NULL, NULL, 0 },
	{ "read", read_blocks, NULL, NULL, O_RDONLY | O_DIRECT },
	{ "fsync", sync_blocks, NULL, NULL, O_RDWR | O_CREAT },
	{ "write", write_file, NULL, NULL, O_RDWR | O_CREAT },
	{ "chain2", wait_and_compute, second_of_two, NULL, 0 },
	{ "chain3", wait_and_compute, second_of_three, third, 0 },
	{ "chainread", only_wait, second_that_reads, NULL, O_RDONLY | O_DIRECT },
}, *mode;

static void share_a_cpu(void)
{
	cpu_set_t allowed, only;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_ZERO(&only);
			CPU_SET(cpu, &only);
		}
	if (sched_setaffinity(0, sizeof(only), &only))
		die("sched_setaffinity");
}

static void print_thread(const struct known_thread *thread)
{
	printf("{\"name\":\"%s\",\"tid\":%d,\"begin_ns\":%llu,\"end_ns\":%llu,", thread->name,
	       thread->tid, thread->begin_ns, thread->end_ns);
	printf("\"run_ns\":%llu,\"run_delay_ns\":%llu,\"blkio_ns\":%llu,", thread->counts.run_ns,
	       thread->counts.run_delay_ns, thread->counts.blkio_ns);
	printf("\"sleeps\":%ld,\"preemptions\":%ld}", thread->counts.sleeps,
	       thread->counts.preemptions);
}

static void print(void)
{
	printf("{\"mode\":\"%s\",\"pid\":%d,\"threads\":[", mode->name, (int)getpid());
	for (int i = 0; i < n_threads; i++) {
		print_thread(&threads[i]);
		printf("%s", i + 1 < n_threads ? "," : "],\"pieces\":[");
	}
	for (int i = 0; i < n_pieces && i < MOST_PIECES; i++)
		printf("%s{\"thread\":\"%s\",\"what\":\"%s\",\"begin_ns\":%llu,\"end_ns\":%llu}",
		       i ? "," : "", pieces[i].thread, pieces[i].what, pieces[i].begin_ns,
		       pieces[i].end_ns);
	puts("]}");
}

int main(int argc, char **argv)
{
	const struct mode *end = modes + sizeof(modes) / sizeof(modes[0]);

	mode = modes;
	while (mode < end && (argc < 3 || strcmp(mode->name, argv[1])))
		mode++;
	if (mode == end || argc != (mode->flags ? 4 : 3))
		return 2;
	amount = atoi(argv[2]);
	if (open_taskstats()) {
		fprintf(stderr, "known_times: no taskstats\n");
		return 77;
	}
	if (pipe(ping) || pipe(pong) || pipe(chain))
		die("pipe");
	if (posix_memalign((void **)&block, BLOCK, BLOCK))
		die("memory");
	memset(block, 'x', BLOCK);
	if (mode->flags) {
		file = open(argv[3], mode->flags, 0644);
		if (file < 0)
			die(argv[3]);
	}
	if (!strcmp(mode->name, "hogs"))
		share_a_cpu();
	/* "main" is a thread like the others, so that its first and last moments are known. */
	start("main", mode->main);
	if (mode->second)
		start("second", mode->second);
	if (mode->third)
		start("third", mode->third);
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i].thread, NULL);
	print();
	return 0;
}
