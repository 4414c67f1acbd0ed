// SPDX-License-Identifier: BSD-2-Clause
/*
 * A pipe's mutex held for a known time, and threads that sleep for it.
 *
 *   pipe_holder WAITERS HOLD_MS
 *
 * The holder writes from a page that userfaultfd withholds, so the kernel stops in the middle of the write
 * with the mutex taken. The waiters then call write(2) on the same pipe. HOLD_MS after all wait the page is given, or
 * with 0 when SIGUSR1 comes.
 * Prints one JSON object: when the page was given, and each waiter's begin and end of write(2), and when it was
 * seen to sleep in it.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hold.h"
#include "proc.h"

#define MAX_WAITERS 16
#define PAGE	    4096

static int ends[2];
static char *withheld;
static int holder_tid;

struct waiter {
	pthread_t thread;
	int tid;
	unsigned long long begin_ns, waiting_ns, end_ns;
};

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *hold(void *unused)
{
	__atomic_store_n(&holder_tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
	if (write(ends[1], withheld, 16) != 16)
		perror("holder: write");
	return unused;
}

static void *wait_for_it(void *argument)
{
	struct waiter *me = argument;

	me->begin_ns = now_ns();
	__atomic_store_n(&me->tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
	if (write(ends[1], "waiter", 6) != 6)
		perror("waiter: write");
	me->end_ns = now_ns();
	return NULL;
}

/* Returns when it sleeps in write(2), or not at all. */
static unsigned long long until_it_sleeps(const int *tid)
{
	unsigned long long end_ns = now_ns() + 60 * 1000000000ULL;

	while (sleeps_in_call(__atomic_load_n(tid, __ATOMIC_ACQUIRE)) != SYS_write) {
		if (now_ns() > end_ns) {
			fprintf(stderr, "pipe_holder: it does not sleep\n");
			exit(1);
		}
		usleep(100);
	}
	return now_ns();
}

static int withhold(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	withheld = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)withheld;
	range.range.len = PAGE;
	if (fd < 0 || withheld == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &range)) {
		perror("pipe_holder: userfaultfd");
		exit(77);
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct waiter waiters[MAX_WAITERS] = { 0 };
	struct uffdio_zeropage give = { 0 };
	struct uffd_msg message;
	pthread_t holder;
	unsigned long long given_ns;
	int count, hold_ms, fd;
	sigset_t told;

	if (argc != 3) {
		fprintf(stderr, "usage: pipe_holder WAITERS HOLD_MS\n");
		return 2;
	}
	count = atoi(argv[1]);
	hold_ms = atoi(argv[2]);
	if (count < 1 || count > MAX_WAITERS || pipe(ends))
		return 2;
	hold_signal(&told);
	fd = withhold();
	if (pthread_create(&holder, NULL, hold, NULL) ||
	    read(fd, &message, sizeof(message)) != sizeof(message))
		return 1;
	/* The holder is in the fault now, the mutex taken; the waiters would spin for as long as it has a CPU. */
	until_it_sleeps(&holder_tid);
	for (int i = 0; i < count; i++)
		if (pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]))
			return 1;
	for (int i = 0; i < count; i++)
		waiters[i].waiting_ns = until_it_sleeps(&waiters[i].tid);
	fprintf(stderr, "held\n");
	hold_for(hold_ms, &told);
	give.range.start = (unsigned long)withheld;
	give.range.len = PAGE;
	given_ns = now_ns();
	if (ioctl(fd, UFFDIO_ZEROPAGE, &give)) {
		perror("pipe_holder: give");
		return 1;
	}
	pthread_join(holder, NULL);
	for (int i = 0; i < count; i++)
		pthread_join(waiters[i].thread, NULL);
	printf("{\"given_ns\":%llu,\"waiters\":[", given_ns);
	for (int i = 0; i < count; i++)
		printf("%s{\"tid\":%d,\"begin_ns\":%llu,\"waiting_ns\":%llu,\"end_ns\":%llu}",
		       i ? "," : "", waiters[i].tid, waiters[i].begin_ns, waiters[i].waiting_ns,
		       waiters[i].end_ns);
	puts("]}");
	return 0;
}
