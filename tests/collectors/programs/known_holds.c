// SPDX-License-Identifier: BSD-2-Clause
/*
 * Known operations under known locks.
 *
 *   known_holds ops DIR N    N writes and N truncations of one file, N readings of one directory, N writes to a pipe and
 *                            N reads from it
 *   known_holds hold DIR HOLD_MS TRIES
 *                            one write whose page userfaultfd withholds for HOLD_MS, so that the kernel stops in it with
 *                            the file's lock taken; meanwhile TRIES reads that may not wait for the lock
 *   known_holds keep DIR HOLD_MS
 *                            the same without the tries, with HOLD_MS 0 until SIGUSR1; prints "held" on stderr while it is
 *
 * Prints one JSON object with its own clock's readings.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "hold.h"

#define PAGE 4096

static char *withheld;
static int file;
static unsigned long long begin_ns, end_ns;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static void *write_withheld(void *unused)
{
	begin_ns = now_ns();
	need(pwrite(file, withheld, 16, 0) == 16, "pwrite");
	end_ns = now_ns();
	return unused;
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
		perror("known_holds: userfaultfd");
		exit(77);
	}
	return fd;
}

static int hold(int hold_ms, int tries)
{
	struct uffdio_zeropage give = { 0 };
	struct uffd_msg message;
	struct iovec part = { .iov_len = PAGE };
	unsigned long long fault_ns, given_ns;
	int fd, direct, failed = 0;
	pthread_t writer;
	sigset_t told;

	direct = open("held", O_RDONLY | O_DIRECT);
	need(direct >= 0, "held: O_DIRECT");
	need(posix_memalign(&part.iov_base, PAGE, PAGE) == 0, "memory");
	hold_signal(&told);
	fd = withhold();
	need(pthread_create(&writer, NULL, write_withheld, NULL) == 0, "thread");
	need(read(fd, &message, sizeof(message)) == sizeof(message), "userfaultfd: read");
	fault_ns = now_ns();
	fprintf(stderr, "held\n");
	for (int i = 0; i < tries; i++) {
		need(preadv2(direct, &part, 1, 0, RWF_NOWAIT) < 0 && errno == EAGAIN,
		     "a read that may not wait did not fail");
		failed++;
	}
	hold_for(hold_ms, &told);
	give.range.start = (unsigned long)withheld;
	give.range.len = PAGE;
	given_ns = now_ns();
	need(ioctl(fd, UFFDIO_ZEROPAGE, &give) == 0, "userfaultfd: give");
	pthread_join(writer, NULL);
	printf("{\"begin_ns\":%llu,\"fault_ns\":%llu,\"given_ns\":%llu,\"end_ns\":%llu,\"failed\":%d}\n",
	       begin_ns, fault_ns, given_ns, end_ns, failed);
	return 0;
}

static int operate(int count)
{
	char text[16] = "fifteen letters", entries[1024];
	int directory = open(".", O_RDONLY | O_DIRECTORY), ends[2];

	need(directory >= 0 && pipe(ends) == 0, "directory or pipe");
	for (int i = 0; i < count; i++) {
		need(pwrite(file, text, sizeof(text), i * 16) == sizeof(text), "pwrite");
		need(ftruncate(file, i) == 0, "ftruncate");
		need(lseek(directory, 0, SEEK_SET) == 0, "lseek");
		need(syscall(SYS_getdents64, directory, entries, sizeof(entries)) > 0, "getdents");
		need(write(ends[1], text, sizeof(text)) == sizeof(text), "pipe: write");
		need(read(ends[0], text, sizeof(text)) == sizeof(text), "pipe: read");
	}
	printf("{\"count\":%d}\n", count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4 || chdir(argv[2])) {
		fprintf(stderr, "usage: known_holds ops DIR N | hold DIR MS TRIES | keep DIR MS\n");
		return 2;
	}
	file = open("held", O_RDWR | O_CREAT, 0600);
	need(file >= 0, "held");
	if (!strcmp(argv[1], "ops"))
		return operate(atoi(argv[3]));
	return hold(atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
}
