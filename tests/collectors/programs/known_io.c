// SPDX-License-Identifier: BSD-2-Clause
/*
 * Direct I/O on a raw device in a known order, one operation at a time: known_io DEVICE SEED
 *
 * Prints a JSON line an operation: what, offset and length in bytes, begin and end on CLOCK_MONOTONIC, who.
 * Every third one is done by a second thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define OPERATIONS     400
#define DEVICE_BYTES   (16ULL << 30)
#define SIZE_MAX_BYTES (1 << 20)

struct operation {
	int fd;
	const char *what;
	uint64_t offset;
	uint64_t bytes;
	void *buffer;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *perform(void *argument)
{
	struct operation *operation = argument;
	struct iovec vector = { operation->buffer, operation->bytes };
	uint64_t range[2] = { operation->offset, operation->bytes };
	uint64_t begin, end;
	ssize_t result;

	begin = now_ns();
	if (!strcmp(operation->what, "read"))
		result = pread(operation->fd, operation->buffer, operation->bytes,
			       operation->offset);
	else if (!strcmp(operation->what, "write"))
		result = pwrite(operation->fd, operation->buffer, operation->bytes,
				operation->offset);
	else if (!strcmp(operation->what, "dsync"))
		result = pwritev2(operation->fd, &vector, 1, operation->offset, RWF_DSYNC);
	else if (!strcmp(operation->what, "discard"))
		result = ioctl(operation->fd, BLKDISCARD, range) ? -1 : (ssize_t)operation->bytes;
	else
		result = fsync(operation->fd);
	end = now_ns();
	if (result != (ssize_t)operation->bytes) {
		fprintf(stderr, "%s at %llu: %s\n", operation->what,
			(unsigned long long)operation->offset, strerror(errno));
		exit(1);
	}
	printf("{\"what\":\"%s\",\"offset\":%llu,\"bytes\":%llu,\"begin_ns\":%llu,\"end_ns\":%llu,\"pid\":%ld,\"tgid\":%d}\n",
	       operation->what, (unsigned long long)operation->offset,
	       (unsigned long long)operation->bytes, (unsigned long long)begin,
	       (unsigned long long)end, syscall(SYS_gettid), getpid());
	return NULL;
}

int main(int argc, char **argv)
{
	struct operation operation = { 0 };
	uint64_t backwards = DEVICE_BYTES;

	if (argc != 3)
		return 2;
	srandom(atoi(argv[2]));
	operation.fd = open(argv[1], O_RDWR | O_DIRECT);
	if (operation.fd < 0 || posix_memalign(&operation.buffer, 4096, SIZE_MAX_BYTES)) {
		perror(argv[1]);
		return 1;
	}
	memset(operation.buffer, 0x5a, SIZE_MAX_BYTES);
	for (int i = 0; i < OPERATIONS; i++) {
		static const char *const kinds[] = { "read",  "write", "read",	  "write",
						     "write", "dsync", "discard", "fsync" };
		pthread_t thread;

		operation.what = kinds[random() % 8];
		operation.bytes = 512ULL << random() % 12; /* 512 bytes to 1 MiB */
		if (random() % 2)
			operation.bytes = (1 + random() % 2048) * 512ULL;
		/* Anywhere, also behind 8 GiB, or just before the last of this kind. */
		operation.offset =
			((uint64_t)random() << 8) % (DEVICE_BYTES - SIZE_MAX_BYTES) / 512 * 512;
		if (random() % 3 == 0) {
			backwards -= operation.bytes;
			operation.offset = backwards;
		}
		if (!strcmp(operation.what, "dsync") && operation.bytes > 65536)
			operation.bytes = 65536;
		if (!strcmp(operation.what, "discard")) {
			operation.offset = operation.offset / 4096 * 4096;
			operation.bytes = (operation.bytes + 4095) / 4096 * 4096;
		}
		if (!strcmp(operation.what, "fsync"))
			operation.offset = operation.bytes = 0;
		if (i % 3) {
			perform(&operation);
		} else if (pthread_create(&thread, NULL, perform, &operation) ||
			   pthread_join(thread, NULL)) {
			perror("thread");
			return 1;
		}
	}
	return 0;
}
