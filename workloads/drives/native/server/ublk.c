// SPDX-License-Identifier: BSD-2-Clause
/*
 * The disk as a ublk device: requests come out of the block layer through an io_uring, and the answers go the same way.
 * Compared with fuse.c there is no loop device and no file between; the kernel knows the disk's 32 tags, its write
 * cache, FUA and that it rotates.
 *
 * One queue. Its thread, run(), has one command of the driver's underway for each free tag: the driver completes it when
 * a request comes, and "commit and fetch" answers the request and waits for the next one of that tag. The driver takes
 * commands from this thread only, so answer() of another thread hands the tag over and wakes it.
 *
 * Data are copied by pread() and pwrite() on the character device (UBLK_F_USER_COPY, Linux 6.5), which any thread may
 * do: so answer() copies right into the request's pages, and the queue needs no buffer for each tag.
 *
 * The kernel keeps the device after our death. It is removed by its mark then, see workloads/system/ublkdev.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ublk_cmd.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "service.h"
#include "transport.h"
#include "uring.h"

/* Linux 6.4, 2d786e66c966 "block: ublk: switch to ioctl command encoding"; Debian 12 has the header of 6.1. */
#ifndef UBLK_U_CMD_ADD_DEV
#define UBLK_U_CMD_ADD_DEV    _IOWR('u', UBLK_CMD_ADD_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV    _IOWR('u', UBLK_CMD_DEL_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_DEV  _IOWR('u', UBLK_CMD_START_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_STOP_DEV   _IOWR('u', UBLK_CMD_STOP_DEV, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS _IOWR('u', UBLK_CMD_SET_PARAMS, struct ublksrv_ctrl_cmd)
#define UBLK_U_IO_FETCH_REQ   _IOWR('u', UBLK_IO_FETCH_REQ, struct ublksrv_io_cmd)
#define UBLK_U_IO_COMMIT_AND_FETCH_REQ \
	_IOWR('u', UBLK_IO_COMMIT_AND_FETCH_REQ, struct ublksrv_io_cmd)
#define UBLK_F_CMD_IOCTL_ENCODE (1UL << 6)
#endif
/* Linux 6.5, 1172d5b8beca "ublk: support user copy" and 62fe99cef94a "ublk: add read()/write() support". */
#ifndef UBLK_F_USER_COPY
#define UBLK_F_USER_COPY (1UL << 7)
#define UBLK_TAG_OFF	 25
#endif
/* Linux 6.9, 13fe8e6825e4 "ublk: add UBLK_CMD_DEL_DEV_ASYNC". */
#ifndef UBLK_U_CMD_DEL_DEV_ASYNC
#define UBLK_U_CMD_DEL_DEV_ASYNC _IOR('u', 0x14, struct ublksrv_ctrl_cmd)
#endif
/* Linux 7.0, 8443e2087e70 "ublk: add UBLK_F_NO_AUTO_PART_SCAN feature flag". Older kernels ignore it. */
#ifndef UBLK_F_NO_AUTO_PART_SCAN
#define UBLK_F_NO_AUTO_PART_SCAN (1ULL << 18)
#endif

/* As a SATA disk with NCQ. The kernel's queue has the size that follows from it: nr_requests is 64. */
#define TAGS	   32
/* Commands between two waits: a commit for each tag, START_DEV, and a read of the eventfd. */
#define ENTRIES	   64
/* Of completions that belong to no tag. */
#define DATA_WAKE  (TAGS + 0ULL)
#define DATA_START (TAGS + 1ULL)

/*
 * From the driver's queue to run(): task work and a wake-up. From answer() to the host's end: another wake-up (the
 * eventfd), the commit, and the end of the request. Not measured on a machine that keeps time: those with ublk_drv that
 * we have are emulated. Halves of what FUSE takes, for half of the ways.
 */
#define WAY_IN_NS  10000
#define WAY_OUT_NS 15000

#define REMOVAL_S 5

struct ublk {
	struct transport transport; /* first: its address is ours */
	int control, device, wake;
	uint32_t number;
	const struct ublksrv_io_desc *descriptors;
	size_t descriptors_bytes;
	struct uring ring; /* of run() */
	pthread_t thread;  /* that runs run() */
	sem_t removed;	   /* run() has ended */
	uint64_t wakes;	   /* what the eventfd counted; unused */
	int results[TAGS];
	/* Answered tags for run(), in order: tag + 1, or 0. A tag is in it once, so it never overflows. */
	_Atomic uint32_t answered[TAGS];
	_Atomic uint32_t answered_tail;
	uint32_t answered_head;
	char *data; /* of the write that is being taken */
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((format(printf, 2, 3))) static int fail(char error[256], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, 256, format, arguments);
	va_end(arguments);
	return -1;
}

/* Gives one command to the control device and waits for its end. 0, or a negative errno. */
static int command(const struct ublk *ublk, uint32_t operation, void *buffer, uint16_t bytes)
{
	struct ublksrv_ctrl_cmd argument = {
		.dev_id = ublk->number,
		.queue_id = UINT16_MAX,
		.len = bytes,
		.addr = (uint64_t)(uintptr_t)buffer,
	};
	struct uring ring;
	int result = uring_open(&ring, 1);

	if (result)
		return result;
	uring_command(&ring, ublk->control, operation, &argument, sizeof(argument), 0);
	result = uring_wait(&ring);
	if (!result)
		result = uring_peek(&ring)->res;
	uring_close(&ring);
	return result < 0 ? result : 0;
}

static int add(struct ublk *ublk, uint64_t mark)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = 1,
		.queue_depth = TAGS,
		.max_io_buf_bytes = REQUEST_MOST_BYTES,
		.dev_id = UINT32_MAX, /* any */
		.ublksrv_pid = getpid(),
		.flags = UBLK_F_CMD_IOCTL_ENCODE | UBLK_F_USER_COPY | UBLK_F_NO_AUTO_PART_SCAN,
		.ublksrv_flags = mark,
	};
	int result;

	ublk->number = UINT32_MAX;
	result = command(ublk, UBLK_U_CMD_ADD_DEV, &info, sizeof(info));
	if (result)
		return result;
	ublk->number = info.dev_id;
	return info.flags & UBLK_F_USER_COPY ? 0 : -EOPNOTSUPP;
}

static int set_parameters(const struct ublk *ublk, bool has_cache)
{
	struct ublk_params params = {
		.len = sizeof(params),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic = {
			.attrs = UBLK_ATTR_ROTATIONAL |
				 (has_cache ? UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA : 0),
			.logical_bs_shift = 9,
			.physical_bs_shift = 9,
			.io_min_shift = 9,
			.max_sectors = REQUEST_MOST_BYTES >> 9,
			.dev_sectors = ublk->transport.sectors,
		},
	};

	return command(ublk, UBLK_U_CMD_SET_PARAMS, &params, sizeof(params));
}

/* The device's node, which devtmpfs makes at once. */
static int open_device(const struct ublk *ublk)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/ublkc%u", ublk->number);
	return open(path, O_RDWR | O_CLOEXEC);
}

static void remove_device(const struct ublk *ublk)
{
	/* The other command waits until nobody has the device open. */
	if (command(ublk, UBLK_U_CMD_DEL_DEV_ASYNC, NULL, 0) == -EOPNOTSUPP)
		(void)command(ublk, UBLK_U_CMD_DEL_DEV, NULL, 0);
}

static void fetch(struct ublk *ublk, uint32_t tag)
{
	const struct ublksrv_io_cmd argument = { .tag = (uint16_t)tag };

	uring_command(&ublk->ring, ublk->device, UBLK_U_IO_FETCH_REQ, &argument, sizeof(argument),
		      tag);
}

static void commit(struct ublk *ublk, uint32_t tag)
{
	const struct ublksrv_io_cmd argument = {
		.tag = (uint16_t)tag,
		.result = ublk->results[tag],
	};

	uring_command(&ublk->ring, ublk->device, UBLK_U_IO_COMMIT_AND_FETCH_REQ, &argument,
		      sizeof(argument), tag);
}

static void commit_answered(struct ublk *ublk)
{
	uint32_t entry;

	while ((entry = atomic_exchange(&ublk->answered[ublk->answered_head % TAGS], 0))) {
		ublk->answered_head++;
		commit(ublk, entry - 1);
	}
}

static off_t data_offset(uint32_t tag)
{
	return (off_t)UBLKSRV_IO_BUF_OFFSET + ((off_t)tag << UBLK_TAG_OFF);
}

static void answer(struct transport *transport, uint32_t tag, int error, const struct iovec *data,
		   int pieces)
{
	struct ublk *ublk = (struct ublk *)transport;
	const struct ublksrv_io_desc *descriptor = &ublk->descriptors[tag];
	uint8_t op = ublksrv_get_op(descriptor);
	int bytes = op == UBLK_IO_OP_FLUSH ? 0 : (int)(descriptor->nr_sectors << 9);

	if (!error && op == UBLK_IO_OP_READ &&
	    pwritev(ublk->device, data, pieces, data_offset(tag)) != bytes)
		error = EIO;
	ublk->results[tag] = error ? -error : bytes;
	if (pthread_equal(pthread_self(), ublk->thread)) {
		commit(ublk, tag);
		return;
	}
	atomic_store(&ublk->answered[atomic_fetch_add(&ublk->answered_tail, 1) % TAGS], tag + 1);
	if (eventfd_write(ublk->wake, 1)) {
		/* Only a counter of 2^64 - 1 is refused. */
	}
}

/* The driver has a request for the tag. */
static void take(struct ublk *ublk, struct service *service, uint32_t tag)
{
	const struct ublksrv_io_desc *descriptor = &ublk->descriptors[tag];
	struct request request = {
		.tag = tag,
		.fua = descriptor->op_flags & UBLK_IO_F_FUA,
		.sector = descriptor->start_sector,
		.sectors = descriptor->nr_sectors,
		.arrival_ns = now_ns(),
	};
	ssize_t bytes = (ssize_t)descriptor->nr_sectors << 9;
	int refused = 0;

	switch (ublksrv_get_op(descriptor)) {
	case UBLK_IO_OP_READ:
		request.op = DRIVE_OP_READ;
		break;
	case UBLK_IO_OP_WRITE:
		request.op = DRIVE_OP_WRITE;
		request.data = ublk->data;
		if (bytes > REQUEST_MOST_BYTES ||
		    pread(ublk->device, ublk->data, (size_t)bytes, data_offset(tag)) != bytes)
			refused = EIO;
		break;
	case UBLK_IO_OP_FLUSH:
		request.op = DRIVE_OP_FLUSH;
		request.sector = request.sectors = 0;
		break;
	default:
		refused = EOPNOTSUPP; /* set_parameters() allows no discards */
	}
	if (refused) {
		ublk->results[tag] = -refused;
		commit(ublk, tag);
		return;
	}
	service_submit(service, &request);
}

static void read_wakes(struct ublk *ublk)
{
	struct io_uring_sqe *entry = uring_entry(&ublk->ring);

	entry->opcode = IORING_OP_READ;
	entry->fd = ublk->wake;
	entry->addr = (uint64_t)(uintptr_t)&ublk->wakes;
	entry->len = sizeof(ublk->wakes);
	entry->user_data = DATA_WAKE;
}

static void start_device(struct ublk *ublk)
{
	const struct ublksrv_ctrl_cmd argument = {
		.dev_id = ublk->number,
		.queue_id = UINT16_MAX,
		.data = { (uint64_t)getpid() },
	};

	/* It runs in a kernel thread, as it waits for the first commands and may read a partition table: we serve. */
	uring_command(&ublk->ring, ublk->control, UBLK_U_CMD_START_DEV, &argument, sizeof(argument),
		      DATA_START);
}

/* One completion. Returns 0, or -1 with a line in `error`. */
static int complete(struct ublk *ublk, struct service *service, uint64_t data, int result,
		    char error[256])
{
	if (data == DATA_WAKE) {
		read_wakes(ublk);
		return 0;
	}
	if (data == DATA_START) {
		if (result < 0)
			return fail(error, "ublk: /dev/ublkb%u cannot be started: %s", ublk->number,
				    strerror(-result));
		return 0;
	}
	if (result == UBLK_IO_RES_OK)
		take(ublk, service, (uint32_t)data);
	else if (result != UBLK_IO_RES_ABORT) /* -ENODEV: the device is being stopped */
		return fail(error, "ublk: the driver refuses a command: %s", strerror(-result));
	return 0;
}

static int serve(struct ublk *ublk, struct service *service, char error[256])
{
	uint32_t aborted = 0; /* commands that came back as the device was stopped */

	while (aborted < TAGS) {
		struct io_uring_cqe *completion;
		int result = uring_wait(&ublk->ring);

		if (result)
			return fail(error, "ublk: io_uring_enter(): %s", strerror(-result));
		while ((completion = uring_peek(&ublk->ring))) {
			uint64_t data = completion->user_data;

			result = completion->res;
			uring_seen(&ublk->ring);
			if (data < TAGS && result == UBLK_IO_RES_ABORT)
				aborted++;
			if (complete(ublk, service, data, result, error))
				return -1;
			/* At once: the next request may have a mebibyte to copy. */
			commit_answered(ublk);
			result = uring_submit(&ublk->ring);
			if (result)
				return fail(error, "ublk: io_uring_enter(): %s", strerror(-result));
		}
	}
	return 0;
}

static int run(struct transport *transport, struct service *service, char error[256])
{
	struct ublk *ublk = (struct ublk *)transport;
	int result = uring_open(&ublk->ring, ENTRIES);

	if (result)
		return fail(error, "ublk: io_uring: %s", strerror(-result));
	ublk->thread = pthread_self();
	read_wakes(ublk);
	for (uint32_t tag = 0; tag < TAGS; tag++)
		fetch(ublk, tag);
	start_device(ublk);
	result = serve(ublk, service, error);
	uring_close(&ublk->ring);
	(void)close(ublk->device);
	remove_device(ublk);
	sem_post(&ublk->removed);
	return result;
}

/* The disk goes, as if it were pulled out; requests that are underway are answered first. */
static void stop(struct transport *transport)
{
	struct ublk *ublk = (struct ublk *)transport;
	struct timespec until;

	if (command(ublk, UBLK_U_CMD_STOP_DEV, NULL, 0))
		return; /* the session removes it by its mark */
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += REMOVAL_S;
	while (sem_clockwait(&ublk->removed, CLOCK_MONOTONIC, &until) && errno == EINTR)
		;
}

struct transport *ublk_transport(uint64_t bytes, bool has_cache, uint64_t mark, char error[256])
{
	struct ublk *ublk = calloc(1, sizeof(*ublk));
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int result;

	if (!ublk || !(ublk->data = malloc(REQUEST_MOST_BYTES))) {
		free(ublk);
		fail(error, "ublk: no memory");
		return NULL;
	}
	memset(ublk->data, 0, REQUEST_MOST_BYTES);
	ublk->transport = (struct transport){
		.name = "ublk",
		.tags = TAGS,
		.sectors = bytes >> 9,
		.way_in_ns = WAY_IN_NS,
		.way_out_ns = WAY_OUT_NS,
		.run = run,
		.answer = answer,
		.stop = stop,
	};
	sem_init(&ublk->removed, 0, 0);
	ublk->wake = eventfd(0, EFD_CLOEXEC);
	ublk->control = open("/dev/ublk-control", O_RDWR | O_CLOEXEC);
	if (ublk->control < 0 || ublk->wake < 0) {
		fail(error, "ublk: /dev/ublk-control cannot be opened: %s; modprobe ublk_drv",
		     strerror(errno));
		goto no_device;
	}
	result = add(ublk, mark);
	if (!result)
		result = set_parameters(ublk, has_cache);
	if (result) {
		fail(error, "ublk: a device cannot be made: %s; Linux 6.5 or newer can",
		     strerror(-result));
		goto no_queue;
	}
	snprintf(ublk->transport.device, sizeof(ublk->transport.device), "ublkb%u", ublk->number);
	ublk->device = open_device(ublk);
	ublk->descriptors_bytes = (TAGS * sizeof(*ublk->descriptors) + page - 1) / page * page;
	if (ublk->device >= 0) {
		ublk->descriptors = mmap(NULL, ublk->descriptors_bytes, PROT_READ,
					 MAP_SHARED | MAP_POPULATE, ublk->device, 0);
		if (ublk->descriptors != MAP_FAILED)
			return &ublk->transport;
	}
	fail(error, "ublk: /dev/ublkc%u cannot be opened: %s", ublk->number, strerror(errno));
	if (ublk->device >= 0)
		(void)close(ublk->device);
no_queue:
	if (ublk->number != UINT32_MAX)
		remove_device(ublk);
no_device:
	if (ublk->control >= 0)
		(void)close(ublk->control);
	if (ublk->wake >= 0)
		(void)close(ublk->wake);
	free(ublk->data);
	free(ublk);
	return NULL;
}
