// SPDX-License-Identifier: BSD-2-Clause
/*
 * Spinlock waits inside spinlock waits: two threads on two CPUs fight for one page table's lock, and timers that
 * expire on both CPUs at the same moment fight for their process's signal lock, in the interrupt.
 *
 *   nested_storm MS
 *
 * Prints one JSON object: the calls that take the first lock, and the signals.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPUS	    2
#define PERIOD_NS   50000
#define TABLE	    (2 << 20) /* what one page table maps, on x86-64 and arm64 with pages of 4 KiB */
#define TABLE_PAGES 512

static char *pages;
static struct timespec first;
static unsigned long long calls, signals, end_ns;
static pthread_barrier_t ready;

static void count_signal(int number)
{
	(void)number;
	__atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static void *fight(void *cpu)
{
	struct itimerspec every = { .it_interval.tv_nsec = PERIOD_NS, .it_value = first };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	unsigned char resident[TABLE_PAGES];
	struct timespec now;
	timer_t timer;
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET((int)(long)cpu, &only);
	check(sched_setaffinity(0, sizeof(only), &only), "sched_setaffinity");
	event._sigev_un._tid = (int)syscall(SYS_gettid);
	check(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
	pthread_barrier_wait(&ready);
	check(timer_settime(timer, TIMER_ABSTIME, &every, NULL), "timer_settime");
	do {
		for (int i = 0; i < 100; i++)
			check(mincore(pages, TABLE, resident), "mincore");
		__atomic_fetch_add(&calls, 100, __ATOMIC_RELAXED);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec * 1000000000ULL + now.tv_nsec < end_ns);
	timer_delete(timer);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	pthread_t threads[CPUS];

	if (argc != 2)
		return 2;
	pages = mmap(NULL, 2 * TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(pages == MAP_FAILED, "mmap");
	pages += TABLE - (unsigned long)pages % TABLE;
	check(madvise(pages, TABLE, MADV_NOHUGEPAGE), "madvise");
	for (int i = 0; i < TABLE; i += TABLE / TABLE_PAGES)
		pages[i] = 1;
	check(sigaction(SIGRTMIN, &action, NULL), "sigaction");
	clock_gettime(CLOCK_MONOTONIC, &first);
	end_ns = first.tv_sec * 1000000000ULL + first.tv_nsec + atoi(argv[1]) * 1000000ULL;
	pthread_barrier_init(&ready, NULL, CPUS);
	for (long i = 0; i < CPUS; i++)
		check(pthread_create(&threads[i], NULL, fight, (void *)i), "pthread_create");
	for (int i = 0; i < CPUS; i++)
		pthread_join(threads[i], NULL);
	printf("{\"calls\":%llu,\"signals\":%llu}\n", calls, signals);
	return 0;
}
