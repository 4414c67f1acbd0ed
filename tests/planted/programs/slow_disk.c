// SPDX-License-Identifier: BSD-2-Clause
// A disk with a known speed: a FUSE file system of one file in memory, for a loop device with direct I/O.
//
//     slow_disk FILE MIB LATENCY_US REQUEST_US MB_PER_S FLUSH_US DISCARD_US
//
// A request is answered at max(arrival + LATENCY_US, answer to the request before) + REQUEST_US + its bytes at
// MB_PER_S (0: no time). So latencies overlap, transfers don't, and order is kept. A flush takes FLUSH_US alone, a discard DISCARD_US (0: it can't).
// Runs in the foreground until FILE is unmounted. SCHED_FIFO: a busy machine must not change the disk's speed.

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = (1 << 20) + (1 << 16), WAITING = 4096 };

struct answer {
	uint64_t unique;
	int64_t due_ns;
	int error;
	uint32_t bytes; // of data, from the image; or of `small`
	int is_data;
	uint64_t offset;
	char small[128];
};

static int device;
static char *image;
static uint64_t image_bytes;
static double latency_ns, request_ns, byte_ns, flush_ns, discard_ns;

static struct answer waiting[WAITING];
static unsigned first, last; // answers [first, last), their due times ascend
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void send_answer(const struct answer *answer)
{
	struct fuse_out_header head = {
		.len = sizeof(head) + (answer->error ? 0 : answer->bytes),
		.error = answer->error,
		.unique = answer->unique,
	};
	struct iovec parts[2] = {
		{ &head, sizeof(head) },
		{ answer->is_data ? image + answer->offset : (char *)answer->small,
		  head.len - sizeof(head) },
	};
	if (writev(device, parts, parts[1].iov_len ? 2 : 1) < 0 && errno != ENOENT &&
	    errno != ENODEV)
		perror("slow_disk: answer");
}

static void *send_when_due(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (first == last)
			pthread_cond_wait(&more, &lock);
		struct answer *answer = &waiting[first % WAITING];
		pthread_mutex_unlock(&lock);
		struct timespec due = { answer->due_ns / 1000000000, answer->due_ns % 1000000000 };
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
			;
		send_answer(answer);
		pthread_mutex_lock(&lock);
		first++;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void queue_answer(struct answer *answer, double latency, double transfer)
{
	static int64_t free_ns;
	int64_t start = now_ns() + (int64_t)latency;
	if (start < free_ns)
		start = free_ns;
	free_ns = answer->due_ns = start + (int64_t)transfer;
	pthread_mutex_lock(&lock);
	if (last - first >= WAITING) {
		fprintf(stderr, "slow_disk: more than %d requests at once\n", WAITING);
		exit(1);
	}
	waiting[last++ % WAITING] = *answer;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
}

static void fill(struct answer *answer, const void *data, uint32_t bytes)
{
	memcpy(answer->small, data, bytes);
	answer->bytes = bytes;
}

static void answer_attr(struct answer *answer)
{
	struct fuse_attr_out out = {
		.attr_valid = 3600,
		.attr = { .ino = 1,
			  .size = image_bytes,
			  .blocks = image_bytes / 512,
			  .mode = S_IFREG | 0600,
			  .nlink = 1,
			  .blksize = 4096 },
	};
	fill(answer, &out, sizeof(out));
}

static void answer_init(struct answer *answer, const struct fuse_init_in *in)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor
							       : FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 0,
		.flags = in->flags &
			 (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES),
		.max_background = 512,
		.congestion_threshold = 512,
		.max_write = 1 << 20,
		.time_gran = 1,
		.max_pages = 256,
	};
	fill(answer, &out, sizeof(out));
}

static void serve(char *buffer)
{
	const struct fuse_in_header *head = (void *)buffer;
	const char *body = buffer + sizeof(*head);
	struct answer answer = { .unique = head->unique };

	switch (head->opcode) {
	case FUSE_INIT:
		answer_init(&answer, (const void *)body);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		answer_attr(&answer);
		break;
	case FUSE_OPEN: {
		struct fuse_open_out out = { .fh = 1 };
		fill(&answer, &out, sizeof(out));
		break;
	}
	case FUSE_STATFS: {
		struct fuse_statfs_out out = {
			.st = { .blocks = image_bytes / 4096, .bsize = 4096, .namelen = 255 }
		};
		fill(&answer, &out, sizeof(out));
		break;
	}
	case FUSE_READ: {
		const struct fuse_read_in *in = (const void *)body;
		answer.offset = in->offset;
		answer.bytes = in->offset + in->size <= image_bytes ? in->size : 0;
		answer.is_data = 1;
		queue_answer(&answer, latency_ns, request_ns + byte_ns * in->size);
		return;
	}
	case FUSE_WRITE: {
		const struct fuse_write_in *in = (const void *)body;
		struct fuse_write_out out = { .size = in->size };
		if (in->offset + in->size > image_bytes)
			answer.error = -ENOSPC;
		else
			memcpy(image + in->offset, body + sizeof(*in), in->size);
		fill(&answer, &out, sizeof(out));
		queue_answer(&answer, latency_ns, request_ns + byte_ns * in->size);
		return;
	}
	case FUSE_FSYNC:
		queue_answer(&answer, 0, flush_ns);
		return;
	case FUSE_FALLOCATE: // a discard; what is there stays
		if (discard_ns > 0) {
			queue_answer(&answer, 0, discard_ns);
			return;
		}
		answer.error = -ENOSYS;
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_DESTROY:
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		answer.error = -ENOSYS;
	}
	send_answer(&answer);
}

int main(int argc, char **argv)
{
	if (argc != 8) {
		fprintf(stderr,
			"usage: slow_disk FILE MIB LATENCY_US REQUEST_US MB_PER_S FLUSH_US DISCARD_US\n");
		return 2;
	}
	image_bytes = strtoull(argv[2], NULL, 10) << 20;
	latency_ns = atof(argv[3]) * 1e3;
	request_ns = atof(argv[4]) * 1e3;
	byte_ns = atof(argv[5]) > 0 ? 1e3 / atof(argv[5]) : 0;
	flush_ns = atof(argv[6]) * 1e3;
	discard_ns = atof(argv[7]) * 1e3;
	image = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *buffer = malloc(BUFFER);
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (image == MAP_FAILED || !buffer || device < 0) {
		perror("slow_disk");
		return 1;
	}
	char options[128];
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100600,user_id=0,group_id=0,max_read=1048576", device);
	if (mount("slow_disk", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
		perror("slow_disk: mount");
		return 1;
	}
	struct sched_param priority = { .sched_priority = 10 };
	sched_setscheduler(0, SCHED_FIFO, &priority);
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0); // no memory of ours waits for our own disk
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	pthread_t sender;
	pthread_create(&sender, NULL, send_when_due, NULL);
	for (;;) {
		ssize_t got = read(device, buffer, BUFFER);
		if (got >= (ssize_t)sizeof(struct fuse_in_header))
			serve(buffer);
		else if (errno == ENODEV)
			return 0; // unmounted
		else if (errno != EINTR && errno != EAGAIN && errno != ENOENT) {
			perror("slow_disk: read");
			return 1;
		}
	}
}
