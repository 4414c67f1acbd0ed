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
 *   lock      a thread that waits for FILE's inode, which "second" has locked: it writes from memory that "third"
 *             gives it after AMOUNT ms (userfaultfd)
 *   read      AMOUNT reads of 4 KiB, past the page cache, of FILE
 *   fault     AMOUNT pages of FILE, which is mapped, are touched
 *   fsync     AMOUNT times 4 KiB are written to FILE and synced
 *   write     AMOUNT MiB are written to FILE through the page cache
 *   reclaim   the same, each half of a MiB on its way to the disk at once
 *   chain2    main waits in a pipe for "second", which sleeps for AMOUNT ms; then main computes as long
 *   chain3    main waits for "second", which waits for "third"; third sleeps, then second computes, then main
 *             does: AMOUNT ms each
 *   chainread main waits for "second", which reads AMOUNT times as in "read"
 *
 * Prints one JSON object. "threads": name, tid, first and last moment, and the kernel's counts at the last one;
 * "pieces": what a thread did, and when. What the thread sleeps in is in the name of the piece.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "known_threads.h"

#define BLOCK  4096
#define STRIDE (32 * BLOCK) /* of pages touched: too far apart for readahead */

static int amount, ping[2], pong[2], chain[2], file = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *block, *withheld;
static int userfault;

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

static void touch_pages(void)
{
	const size_t length = (size_t)amount * STRIDE;
	volatile char *mapped = mmap(NULL, length, PROT_READ, MAP_SHARED, file, STRIDE);

	if (mapped == MAP_FAILED || madvise((void *)mapped, length, MADV_RANDOM))
		die("mmap");
	for (int i = 0; i < amount; i++) {
		unsigned long long begin_ns = now_ns();

		(void)mapped[(size_t)i * STRIDE];
		did("fault", begin_ns);
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

/* What was written is on its way to the disk at once: where memory is short, there is always some to wait for. */
static void write_through(void)
{
	unsigned long long begin_ns = now_ns();

	for (int i = 0; i < amount * (1 << 20) / BLOCK; i++) {
		if (write(file, block, BLOCK) != BLOCK)
			die("write");
		if (i % 128 == 127 && sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE))
			die("sync_file_range");
	}
	did("write", begin_ns);
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

static void lock_inode(void)
{
	if (pwrite(file, withheld, BLOCK, 0) != BLOCK)
		die("write from withheld memory");
}

static void give_late(void)
{
	struct uffdio_zeropage page = { .range = { (unsigned long)withheld, BLOCK } };
	struct uffd_msg fault;

	if (read(userfault, &fault, sizeof(fault)) != sizeof(fault))
		die("userfaultfd");
	tell(ping[1]);
	sleep_for(amount);
	if (ioctl(userfault, UFFDIO_ZEROPAGE, &page))
		die("userfaultfd");
}

static void want_inode(void)
{
	unsigned long long begin_ns;

	wait_for(ping[0]);
	begin_ns = now_ns();
	if (pwrite(file, block, BLOCK, BLOCK) != BLOCK)
		die("write");
	did("lock", begin_ns);
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
	{ "lock", want_inode, lock_inode, give_late, O_RDWR | O_CREAT },
	{ "read", read_blocks, NULL, NULL, O_RDONLY | O_DIRECT },
	{ "fault", touch_pages, NULL, NULL, O_RDONLY | O_CLOEXEC },
	{ "fsync", sync_blocks, NULL, NULL, O_RDWR | O_CREAT },
	{ "write", write_file, NULL, NULL, O_RDWR | O_CREAT },
	{ "reclaim", write_through, NULL, NULL, O_RDWR | O_CREAT },
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

static void withhold(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	userfault = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	withheld = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)withheld;
	range.range.len = BLOCK;
	if (userfault < 0 || withheld == MAP_FAILED || ioctl(userfault, UFFDIO_API, &api) ||
	    ioctl(userfault, UFFDIO_REGISTER, &range))
		die("userfaultfd");
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
	if (!strcmp(mode->name, "lock"))
		withhold();
	/* "main" is a thread like the others, so that its first and last moments are known. */
	start("main", mode->main);
	if (mode->second)
		start("second", mode->second);
	if (mode->third)
		start("third", mode->third);
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i].thread, NULL);
	print(mode->name);
	return 0;
}
