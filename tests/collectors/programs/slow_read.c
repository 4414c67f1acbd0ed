// SPDX-License-Identifier: BSD-2-Clause
/*
 * One read(2) of a regular file that takes a known time.
 *
 *   slow_read FILE HOLD_MS
 *
 * It reads into a page that userfaultfd withholds for HOLD_MS (0: until SIGUSR1), so the kernel stops in the middle of
 * the call. Says "held" on stderr once it has. Prints one JSON object: the call's begin and end, and when in between the
 * page was missed and when it was given. Exit 77: no userfaultfd.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hold.h"

#define PAGE 4096

static char *withheld;
static int hold_ms, uffd;
static sigset_t told;
static unsigned long long fault_ns, given_ns;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *give_later(void *unused)
{
	struct uffdio_zeropage give = { .range = { (unsigned long)withheld, PAGE } };
	struct uffd_msg message;

	if (read(uffd, &message, sizeof(message)) != sizeof(message))
		exit(1);
	fault_ns = now_ns();
	fprintf(stderr, "held\n");
	hold_for(hold_ms, &told);
	given_ns = now_ns();
	if (ioctl(uffd, UFFDIO_ZEROPAGE, &give))
		exit(1);
	return unused;
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	unsigned long long begin_ns, end_ns;
	pthread_t giver;
	int fd;

	if (argc != 3)
		return 2;
	hold_ms = atoi(argv[2]);
	hold_signal(&told);
	fd = open(argv[1], O_RDONLY);
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	withheld = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)withheld;
	range.range.len = PAGE;
	if (uffd < 0 || withheld == MAP_FAILED || ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &range)) {
		perror("slow_read: userfaultfd");
		return 77;
	}
	if (fd < 0 || pthread_create(&giver, NULL, give_later, NULL))
		return 1;
	begin_ns = now_ns();
	if (read(fd, withheld, 1000) != 1000)
		return 1;
	end_ns = now_ns();
	pthread_join(giver, NULL);
	printf("{\"begin_ns\":%llu,\"fault_ns\":%llu,\"given_ns\":%llu,\"end_ns\":%llu}\n",
	       begin_ns, fault_ns, given_ns, end_ns);
	return 0;
}
