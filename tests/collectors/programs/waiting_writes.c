// SPDX-License-Identifier: BSD-2-Clause
/*
 * Direct writes of neighbouring blocks, each queued by itself, to a disk that ends none: waiting_writes DEVICE 1|2 ORDER...
 *
 * An ORDER is that of the blocks of one group: 201 queues its third block, then its first, then its second; 2: those
 * with an odd number by another thread. Before, some others for the disk to be busy with, so that these wait in the
 * scheduler. Prints a JSON line a block: group, block, begin and end of its queueing on
 * CLOCK_MONOTONIC, who; then "queued", and ends when all are written.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	    4096
#define GROUP_BYTES (1ULL << 20)
#define FILLERS	    16

static aio_context_t context;
static void *buffer;
static int disk;

struct block {
	uint64_t offset;
	uint64_t begin_ns, end_ns;
	long pid;
};

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *queue(void *argument)
{
	struct block *block = argument;
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = disk,
		.aio_buf = (uintptr_t)buffer,
		.aio_nbytes = BLOCK,
		.aio_offset = block->offset,
	};
	struct iocb *list[] = { &iocb };

	block->pid = syscall(SYS_gettid);
	block->begin_ns = now_ns();
	if (syscall(SYS_io_submit, context, 1, list) != 1)
		die("io_submit");
	block->end_ns = now_ns();
	return NULL;
}

static void queue_by_another(struct block *block)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, queue, block) || pthread_join(thread, NULL))
		die("thread");
}

int main(int argc, char **argv)
{
	struct block block = { 0 };
	struct io_event event;
	int queued = 0;

	if (argc < 4)
		return 2;
	disk = open(argv[1], O_WRONLY | O_DIRECT);
	if (disk < 0 || posix_memalign(&buffer, BLOCK, BLOCK) ||
	    syscall(SYS_io_setup, 4096, &context))
		die(argv[1]);
	memset(buffer, 0x5a, BLOCK);
	for (; queued < FILLERS; queued++) {
		block.offset = (argc + queued) * GROUP_BYTES;
		queue(&block);
	}
	for (int group = 0; group < argc - 3; group++) {
		for (const char *at = argv[group + 3]; *at; at++) {
			int number = *at - '0';

			block.offset = group * GROUP_BYTES + (uint64_t)number * BLOCK;
			if (number % 2 && *argv[2] == '2')
				queue_by_another(&block);
			else
				queue(&block);
			queued++;
			printf("{\"group\":%d,\"block\":%d,\"begin_ns\":%llu,\"end_ns\":%llu,\"pid\":%ld}\n",
			       group, number, (unsigned long long)block.begin_ns,
			       (unsigned long long)block.end_ns, block.pid);
		}
	}
	puts("queued");
	fflush(stdout);
	for (; queued; queued--)
		if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1 ||
		    event.res != BLOCK)
			die("io_getevents");
	return 0;
}
