// SPDX-License-Identifier: BSD-2-Clause
/*
 * FUSE, as the kernel speaks it on /dev/fuse: a file system whose root is one regular file, the disk. A loop device with
 * direct I/O on that file makes it a disk: each of its requests is a READ or WRITE here, a flush an FSYNC.
 */
#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "pages.h"
#include "service.h"
#include "transport.h"

#define TAGS	   128
#define HEAD_BYTES (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define FOREVER_S  (365ULL * 86400)
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

/*
 * From the submitter to read() here the loop device's worker wakes up, then our thread, and idle CPUs before them.
 * Measured against the submitter's clock: 11 us with busy CPUs, 110 us with idle ones (wakeups of 2 and 36 us).
 */
#define WAY_IN_NS  5000
#define WAKES_IN   3
/* Until it is calibrated. The kernel completes the request inside our call; then CPU and submitter wake up. */
#define WAY_OUT_NS 8000
#define WAKES_OUT  2

struct fuse {
	struct transport transport;
	int device;
	uint64_t bytes;
	char *received; /* a WRITE's data begin on a page */
	uint64_t unique[TAGS];
	uint32_t written_bytes[TAGS]; /* of a WRITE; 0: another request */
	uint32_t free_tags[TAGS];
	uint32_t free_count;
	pthread_mutex_t lock; /* of the free tags */
	sem_t has_tag;
};

static void reply(const struct fuse *fuse, uint64_t unique, int error, const void *body,
		  size_t bytes)
{
	struct fuse_out_header head = { .unique = unique, .error = -error };
	struct iovec pieces[] = { { .iov_base = &head, .iov_len = sizeof(head) },
				  { .iov_base = (void *)(uintptr_t)body, .iov_len = bytes } };

	if (error)
		bytes = 0;
	head.len = (uint32_t)(sizeof(head) + bytes);
	/* Fails for a request that was aborted meanwhile, and after the end: nothing is to be told. */
	if (writev(fuse->device, pieces, bytes ? 2 : 1) < 0)
		return;
}

static void answer(struct transport *transport, uint32_t tag, int error, const struct iovec *data,
		   int count)
{
	struct fuse *fuse = (struct fuse *)transport;
	struct fuse_out_header head = { .unique = fuse->unique[tag], .error = -error };
	struct fuse_write_out wrote = { .size = fuse->written_bytes[tag] };
	struct iovec pieces[REQUEST_MOST_BYTES / PAGE_BYTES + 2];

	if (error || !count) {
		reply(fuse, head.unique, error, &wrote, wrote.size ? sizeof(wrote) : 0);
	} else {
		head.len = sizeof(head);
		pieces[0] = (struct iovec){ .iov_base = &head, .iov_len = sizeof(head) };
		for (int i = 0; i < count; i++) {
			pieces[i + 1] = data[i];
			head.len += (uint32_t)data[i].iov_len;
		}
		if (writev(fuse->device, pieces, count + 1) < 0 && errno != ENOENT &&
		    errno != ENODEV)
			reply(fuse, head.unique, EIO, NULL, 0);
	}
	pthread_mutex_lock(&fuse->lock);
	fuse->free_tags[fuse->free_count++] = tag;
	pthread_mutex_unlock(&fuse->lock);
	sem_post(&fuse->has_tag);
}

static uint32_t take_tag(struct fuse *fuse)
{
	uint32_t tag;

	while (sem_wait(&fuse->has_tag) && errno == EINTR)
		;
	pthread_mutex_lock(&fuse->lock);
	tag = fuse->free_tags[--fuse->free_count];
	pthread_mutex_unlock(&fuse->lock);
	return tag;
}

static struct fuse_attr attributes(const struct fuse *fuse)
{
	return (struct fuse_attr){
		.ino = FUSE_ROOT_ID,
		.size = fuse->bytes,
		.blocks = fuse->bytes / SECTOR_BYTES,
		.mode = S_IFREG | 0600,
		.nlink = 1,
		.blksize = PAGE_BYTES,
	};
}

static int reply_init(const struct fuse *fuse, uint64_t unique, const struct fuse_init_in *in)
{
	const uint32_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO |
				FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS;
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		/* Of this header. Where the kernel's is older, it goes by its own. */
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 0,
		.flags = in->flags & wanted,
		.max_background = 2 * TAGS,
		.congestion_threshold = 2 * TAGS,
		.max_write = REQUEST_MOST_BYTES,
		.time_gran = 1,
		.max_pages = REQUEST_MOST_BYTES / PAGE_BYTES,
	};

	if (in->major != FUSE_KERNEL_VERSION || in->minor < 28)
		return -1;
	reply(fuse, unique, 0, &out, sizeof(out));
	return 0;
}

static void reply_attributes(const struct fuse *fuse, uint64_t unique)
{
	struct fuse_attr_out out = { .attr_valid = FOREVER_S, .attr = attributes(fuse) };

	reply(fuse, unique, 0, &out, sizeof(out));
}

static void reply_open(const struct fuse *fuse, uint64_t unique)
{
	struct fuse_open_out out = { .open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES };

	reply(fuse, unique, 0, &out, sizeof(out));
}

static void reply_statfs(const struct fuse *fuse, uint64_t unique)
{
	struct fuse_statfs_out out = { .st = { .blocks = fuse->bytes / PAGE_BYTES,
					       .files = 1,
					       .bsize = PAGE_BYTES,
					       .namelen = 255,
					       .frsize = PAGE_BYTES } };

	reply(fuse, unique, 0, &out, sizeof(out));
}

/* Of a read or write: 0, or an errno. */
static int set_range(const struct fuse *fuse, uint64_t offset, uint32_t bytes,
		     struct request *request)
{
	if (offset % SECTOR_BYTES || bytes % SECTOR_BYTES || bytes > REQUEST_MOST_BYTES)
		return EINVAL;
	if (offset > fuse->bytes || bytes > fuse->bytes - offset)
		return ENOSPC;
	request->sector = offset / SECTOR_BYTES;
	request->sectors = bytes / SECTOR_BYTES;
	return 0;
}

static void submit(struct fuse *fuse, struct service *service, uint64_t unique,
		   struct request *request, uint32_t written_bytes)
{
	request->tag = take_tag(fuse);
	fuse->unique[request->tag] = unique;
	fuse->written_bytes[request->tag] = written_bytes;
	service_submit(service, request);
}

static void take_read(struct fuse *fuse, struct service *service, uint64_t unique,
		      const struct fuse_read_in *in, struct request *request)
{
	uint64_t offset = in->offset;
	uint32_t bytes = in->size;
	int error;

	/* A read at the end is short, as with any file. */
	if (offset >= fuse->bytes)
		bytes = 0;
	else if (bytes > fuse->bytes - offset)
		bytes = (uint32_t)(fuse->bytes - offset);
	if (!bytes) {
		reply(fuse, unique, 0, NULL, 0);
		return;
	}
	error = set_range(fuse, offset, bytes, request);
	if (error) {
		reply(fuse, unique, error, NULL, 0);
		return;
	}
	request->op = DRIVE_OP_READ;
	submit(fuse, service, unique, request, 0);
}

static void take_write(struct fuse *fuse, struct service *service, uint64_t unique,
		       const struct fuse_write_in *in, struct request *request)
{
	int error = set_range(fuse, in->offset, in->size, request);

	if (!error && !in->size)
		error = EINVAL;
	if (error) {
		reply(fuse, unique, error, NULL, 0);
		return;
	}
	request->op = DRIVE_OP_WRITE;
	request->data = in + 1;
	submit(fuse, service, unique, request, in->size);
}

/* One message of the kernel. 1: it was the last. */
static int take(struct fuse *fuse, struct service *service, size_t bytes, int64_t arrival_ns)
{
	const struct fuse_in_header *head = (const struct fuse_in_header *)fuse->received;
	const void *body = head + 1;
	struct request request = { .arrival_ns = arrival_ns };

	if (bytes < sizeof(*head) || head->len != bytes)
		return 0;
	switch (head->opcode) {
	case FUSE_READ:
		take_read(fuse, service, head->unique, body, &request);
		return 0;
	case FUSE_WRITE:
		take_write(fuse, service, head->unique, body, &request);
		return 0;
	case FUSE_FSYNC:
		request.op = DRIVE_OP_FLUSH;
		submit(fuse, service, head->unique, &request, 0);
		return 0;
	case FUSE_INIT:
		return reply_init(fuse, head->unique, body) ? -1 : 0;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		reply_attributes(fuse, head->unique);
		return 0;
	case FUSE_OPEN:
		reply_open(fuse, head->unique);
		return 0;
	case FUSE_STATFS:
		reply_statfs(fuse, head->unique);
		return 0;
	case FUSE_RELEASE:
		reply(fuse, head->unique, 0, NULL, 0);
		return 0;
	case FUSE_FALLOCATE: /* a discard: refused, and the loop device offers none */
		reply(fuse, head->unique, EOPNOTSUPP, NULL, 0);
		return 0;
	case FUSE_FORGET: /* these get no answer */
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return 0;
	case FUSE_DESTROY:
		reply(fuse, head->unique, 0, NULL, 0);
		return 1;
	default:
		reply(fuse, head->unique, ENOSYS, NULL, 0);
		return 0;
	}
}

static int run(struct transport *transport, struct service *service, char error[256])
{
	struct fuse *fuse = (struct fuse *)transport;
	const size_t most = HEAD_BYTES + REQUEST_MOST_BYTES;

	for (;;) {
		ssize_t got = read(fuse->device, fuse->received, most);
		int last;

		if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
			continue;
		if (got < 0 && errno == ENODEV)
			return 0;
		if (got < 0) {
			snprintf(error, 256, "/dev/fuse: %s", strerror(errno));
			return -1;
		}
		last = take(fuse, service, (size_t)got, now_ns());
		if (last < 0) {
			snprintf(error, 256, "/dev/fuse: this kernel speaks another protocol");
			return -1;
		}
		if (last)
			return 0;
	}
}

struct transport *fuse_transport(int fd, uint64_t bytes, char error[256])
{
	struct fuse *fuse = calloc(1, sizeof(*fuse));
	pthread_mutexattr_t attributes;
	char *buffer;

	if (!fuse ||
	    posix_memalign((void **)&buffer, PAGE_BYTES, REQUEST_MOST_BYTES + PAGE_BYTES)) {
		snprintf(error, 256, "FUSE: %s", strerror(ENOMEM));
		free(fuse);
		return NULL;
	}
	fuse->received = buffer + PAGE_BYTES - HEAD_BYTES;
	fuse->device = fd;
	fuse->bytes = bytes;
	for (uint32_t tag = 0; tag < TAGS; tag++)
		fuse->free_tags[fuse->free_count++] = tag;
	if (pthread_mutexattr_init(&attributes) ||
	    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) ||
	    pthread_mutex_init(&fuse->lock, &attributes) || sem_init(&fuse->has_tag, 0, TAGS)) {
		snprintf(error, 256, "FUSE: no lock that lends priority");
		free(buffer);
		free(fuse);
		return NULL;
	}
	fuse->transport = (struct transport){
		.name = "fuse",
		.tags = TAGS,
		.sectors = bytes / SECTOR_BYTES,
		.way_in_ns = WAY_IN_NS,
		.way_out_ns = WAY_OUT_NS,
		.wakes_in = WAKES_IN,
		.wakes_out = WAKES_OUT,
		.run = run,
		.answer = answer,
	};
	return &fuse->transport;
}
