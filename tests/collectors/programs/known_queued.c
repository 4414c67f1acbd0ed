// SPDX-License-Identifier: BSD-2-Clause
/*
 * A known number of reads, writes and fsyncs queued by io_uring and libaio, without their libraries.
 *
 *   known_queued DIR WHAT     DIR must be empty; all files are made and removed in it
 *
 * WHAT: uring      all that is counted, and what is not: polls, pipes; exit status 77 if the kernel has no io_uring
 *       polled     a ring that the kernel polls (IORING_SETUP_SQPOLL)
 *       overflow   more completions than the ring has room for
 *       quiet      requests that want no completion (IOSQE_CQE_SKIP_SUCCESS)
 *       aio        all that is counted
 *       many       io_submit() and io_getevents() of more than are looked at
 *       reaped     completions taken from the ring in our memory, each iocb used twice
 *
 * Prints one JSON object: for each family its count, bytes and errors as we got them, and requests on a pipe apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FAMILIES 10
#define BLOCK	 4096
#define MANY	 1500
#define DEPTH	 64

struct family {
	const char *name;
	long count, bytes, errors;
};

static struct family families[FAMILIES];
static long on_pipes;
static char data[BLOCK] __attribute__((aligned(BLOCK)));
static int file, only_write, ends[2];

static void die(const char *what)
{
	fprintf(stderr, "known_queued: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void counted(const char *name, long result)
{
	int i = 0;

	while (families[i].name && strcmp(families[i].name, name))
		if (++i == FAMILIES)
			abort();
	families[i].name = name;
	families[i].count++;
	if (result < 0)
		families[i].errors++;
	else
		families[i].bytes += result;
}

/* io_uring */

struct ring {
	int fd;
	struct io_uring_params params;
	char *rings;
	struct io_uring_sqe *sqes;
	unsigned int queued;
};

static const char
	*names[256]; /* by user_data: the family that a completion counts for; NULL: none */
static unsigned int *at(struct ring *ring, unsigned int offset)
{
	return (unsigned int *)(ring->rings + offset);
}

static void set_up(struct ring *ring, unsigned int entries, unsigned int flags)
{
	size_t bytes;

	memset(ring, 0, sizeof(*ring));
	ring->params.flags = flags;
	ring->fd = syscall(SYS_io_uring_setup, entries, &ring->params);
	if (ring->fd < 0 && (errno == ENOSYS || errno == EPERM))
		exit(77);
	if (ring->fd < 0)
		die("io_uring_setup");
	if (!(ring->params.features & IORING_FEAT_SINGLE_MMAP))
		exit(77);
	bytes = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	if (bytes < ring->params.sq_off.array + ring->params.sq_entries * sizeof(unsigned int))
		bytes = ring->params.sq_off.array + ring->params.sq_entries * sizeof(unsigned int);
	ring->rings =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->sqes = mmap(NULL, ring->params.sq_entries * sizeof(struct io_uring_sqe),
			  PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
	if (ring->rings == MAP_FAILED || ring->sqes == MAP_FAILED)
		die("mmap of the ring");
}

/* The next entry, which is submitted by run(). */
static struct io_uring_sqe *queue(struct ring *ring, const char *name, int op, int fd,
				  const void *memory, unsigned int length, long offset)
{
	unsigned int tail = *at(ring, ring->params.sq_off.tail);
	unsigned int place = tail & (ring->params.sq_entries - 1);
	struct io_uring_sqe *sqe = &ring->sqes[place];
	int id = 0;

	for (id = 1; id < 255 && names[id] && (!name || strcmp(names[id], name)); id++)
		;
	names[id] = name;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = op;
	sqe->fd = fd;
	sqe->addr = (unsigned long)memory;
	sqe->len = length;
	sqe->off = offset;
	sqe->user_data = name ? id : 0;
	at(ring, ring->params.sq_off.array)[place] = place;
	__atomic_store_n(at(ring, ring->params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	ring->queued++;
	return sqe;
}

/* Takes what is in the completion ring. */
static unsigned int take(struct ring *ring)
{
	unsigned int head = *at(ring, ring->params.cq_off.head), taken = 0;
	struct io_uring_cqe *cqes = (struct io_uring_cqe *)(ring->rings + ring->params.cq_off.cqes);

	while (head != __atomic_load_n(at(ring, ring->params.cq_off.tail), __ATOMIC_ACQUIRE)) {
		struct io_uring_cqe *cqe = &cqes[head++ & (ring->params.cq_entries - 1)];

		if (cqe->user_data)
			counted(names[cqe->user_data], cqe->res);
		taken++;
		__atomic_store_n(at(ring, ring->params.cq_off.head), head, __ATOMIC_RELEASE);
	}
	return taken;
}

/* Returns how many were submitted. */
static unsigned int enter(struct ring *ring, unsigned int submit, unsigned int wait,
			  unsigned int flags)
{
	long submitted = syscall(SYS_io_uring_enter, ring->fd, submit, wait,
				 flags | IORING_ENTER_GETEVENTS, NULL, 0);

	if (submitted < 0)
		die("io_uring_enter");
	return submitted;
}

/* Submits all and waits until so many of them have completed. */
static void run_but(struct ring *ring, unsigned int quiet)
{
	unsigned int left = ring->queued - quiet;

	/* Linux 5.10 stops at a request that fails at once (EBADF), and does not wait then. */
	while (ring->queued)
		ring->queued -= enter(ring, ring->queued, left, 0);
	for (unsigned int taken = take(ring); taken < left; taken += take(ring))
		enter(ring, 0, 1, 0);
}

static void run(struct ring *ring)
{
	run_but(ring, 0);
}

static void uring(void)
{
	struct iovec parts[2] = { { data, 50 }, { data, 70 } }, fixed = { data, BLOCK };
	struct ring ring;

	set_up(&ring, DEPTH, 0);
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &fixed, 1) ||
	    syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &file, 1))
		die("io_uring_register");
	for (int i = 0; i < 20; i++)
		queue(&ring, "uring_write", IORING_OP_WRITE, file, data, BLOCK, i * BLOCK);
	run(&ring);
	queue(&ring, "uring_write", IORING_OP_WRITEV, file, parts, 2, 0);
	queue(&ring, "uring_write", IORING_OP_WRITE_FIXED, file, data, 1000, 0);
	queue(&ring, "uring_write", IORING_OP_WRITE, 0, data, 333, 0)->flags = IOSQE_FIXED_FILE;
	queue(&ring, "uring_write", IORING_OP_WRITE, file, NULL, BLOCK, 0); /* EFAULT */
	queue(&ring, "uring_fsync", IORING_OP_FSYNC, file, NULL, 0, 0);
	queue(&ring, "uring_fsync", IORING_OP_FSYNC, file, NULL, 0, 0)->fsync_flags =
		IORING_FSYNC_DATASYNC;
	run(&ring);
	for (int i = 0; i < 10; i++)
		queue(&ring, "uring_read", IORING_OP_READ, file, data, BLOCK, i * BLOCK);
	queue(&ring, "uring_read", IORING_OP_READ, file, data, BLOCK, 20 * BLOCK - 96); /* short */
	queue(&ring, "uring_read", IORING_OP_READ, file, data, BLOCK,
	      40 * BLOCK); /* at the end: 0 */
	queue(&ring, "uring_read", IORING_OP_READV, file, parts, 2, 0);
	queue(&ring, "uring_read", IORING_OP_READ_FIXED, file, data, 500, 0);
	queue(&ring, "uring_read", IORING_OP_READ, only_write, data, BLOCK, 0); /* EBADF */
	/* done by a worker thread of the kernel's */
	queue(&ring, "uring_read", IORING_OP_READ, file, data, 77, 0)->flags = IOSQE_ASYNC;
	/* one after the other */
	queue(&ring, "uring_write", IORING_OP_WRITE, file, data, 600, 0)->flags = IOSQE_IO_LINK;
	queue(&ring, "uring_read", IORING_OP_READ, file, data, 600, 0);
	run(&ring);
	for (int i = 0; i < 5; i++)
		queue(&ring, NULL, IORING_OP_NOP, -1, NULL, 0, 0);
	if (write(ends[1], data, 300) != 300)
		die("write to a pipe");
	queue(&ring, NULL, IORING_OP_READ, ends[0], data, 300, 0);
	on_pipes += 2;
	run(&ring);
	close(ring.fd);
}

static void polled(void)
{
	struct ring ring;

	set_up(&ring, DEPTH, IORING_SETUP_SQPOLL);
	for (int i = 0; i < 30; i++) {
		queue(&ring, "uring_write", IORING_OP_WRITE, file, data, BLOCK, i * BLOCK);
		for (unsigned int taken = 0; !taken; taken = take(&ring)) {
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			enter(&ring, 0, 1,
			      *at(&ring, ring.params.sq_off.flags) & IORING_SQ_NEED_WAKEUP
				      ? IORING_ENTER_SQ_WAKEUP
				      : 0);
		}
	}
	close(ring.fd);
}

static void overflow(void)
{
	struct ring ring;
	unsigned int taken = 0;

	set_up(&ring, 1, 0);
	for (int i = 0; i < 50; i++) {
		queue(&ring, "uring_write", IORING_OP_WRITE, file, data, 100, i * 100);
		if (syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) != 1)
			die("io_uring_enter");
		if (i % 10 != 9)
			continue;
		while ((int)taken <= i) {
			enter(&ring, 0, 1, 0);
			taken += take(&ring);
		}
	}
	close(ring.fd);
}

static void quiet(void)
{
	struct ring ring;

	set_up(&ring, DEPTH, 0);
	if (!(ring.params.features & IORING_FEAT_CQE_SKIP))
		exit(77);
	for (int i = 0; i < 8; i++) {
		queue(&ring, NULL, IORING_OP_WRITE, file, data, 100, i * 100)->flags =
			IOSQE_CQE_SKIP_SUCCESS;
		queue(&ring, "uring_write", IORING_OP_WRITE, file, data, 10, 0);
	}
	run_but(&ring, 8);
	close(ring.fd);
}

/* libaio */

static aio_context_t context;
static struct iocb iocbs[MANY], *pointers[MANY];
static struct io_event events[MANY];

static void set(int i, const char *name, int op, int fd, const void *memory, long length,
		long offset)
{
	iocbs[i] = (struct iocb){ .aio_data = (unsigned long)name,
				  .aio_lio_opcode = op,
				  .aio_fildes = fd,
				  .aio_buf = (unsigned long)memory,
				  .aio_nbytes = length,
				  .aio_offset = offset };
	pointers[i] = &iocbs[i];
}

static void submit(long count, long taken)
{
	if (syscall(SYS_io_submit, context, count, pointers) != taken)
		die("io_submit");
}

static void events_of(long count)
{
	long got = syscall(SYS_io_getevents, context, count, count, events, NULL);

	if (got != count)
		die("io_getevents");
	for (long i = 0; i < got; i++)
		if (events[i].data)
			counted((const char *)events[i].data, events[i].res);
}

static void open_context(void)
{
	if (syscall(SYS_io_setup, 2 * MANY, &context))
		die("io_setup");
}

static void aio(void)
{
	struct iovec parts[2] = { { data, 50 }, { data, 70 } };
	int n = 0;

	open_context();
	for (n = 0; n < 20; n++)
		set(n, "aio_write", IOCB_CMD_PWRITE, file, data, BLOCK, n * BLOCK);
	submit(n, n);
	events_of(n);
	set(0, "aio_write", IOCB_CMD_PWRITEV, file, parts, 2, 0);
	set(1, "aio_fsync", IOCB_CMD_FSYNC, file, NULL, 0, 0);
	set(2, "aio_fsync", IOCB_CMD_FDSYNC, file, NULL, 0, 0);
	submit(3, 3);
	events_of(3);
	for (n = 0; n < 10; n++)
		set(n, "aio_read", IOCB_CMD_PREAD, file, data, BLOCK, n * BLOCK);
	set(n++, "aio_read", IOCB_CMD_PREAD, file, data, BLOCK, 20 * BLOCK - 96); /* short */
	set(n++, "aio_read", IOCB_CMD_PREAD, file, data, BLOCK, 40 * BLOCK); /* at the end: 0 */
	set(n++, "aio_read", IOCB_CMD_PREADV, file, parts, 2, 0);
	set(n++, "aio_read", IOCB_CMD_PREAD, file, (void *)1, BLOCK, 0); /* EFAULT */
	submit(n, n);
	events_of(n);
	/* EBADF: io_submit() takes the first one only; then the third one after all, the same iocb */
	set(0, "aio_read", IOCB_CMD_PREAD, file, data, 11, 0);
	set(1, "aio_read", IOCB_CMD_PREAD, 999, data, 11, 0);
	set(2, "aio_read", IOCB_CMD_PREAD, file, data, 13, 0);
	submit(3, 1);
	events_of(1);
	pointers[0] = &iocbs[2];
	submit(1, 1);
	events_of(1);
	if (write(ends[1], data, 300) != 300)
		die("write to a pipe");
	set(0, NULL, IOCB_CMD_PREAD, ends[0], data, 300, 0);
	set(1, NULL, IOCB_CMD_POLL, ends[1], (void *)POLLOUT, 0, 0);
	iocbs[1].aio_buf = POLLOUT;
	on_pipes += 2;
	submit(2, 2);
	events_of(2);
	/* none: a wait that is given nothing */
	if (syscall(SYS_io_getevents, context, 0, 1, events, &(struct timespec){ 0, 0 }))
		die("io_getevents");
}

static void many(void)
{
	open_context();
	for (int i = 0; i < MANY; i++)
		set(i, "aio_write", IOCB_CMD_PWRITE, file, data, 10, i * 10);
	submit(MANY, MANY);
	events_of(MANY);
}

/* fs/aio.c: what io_setup() maps at the context's address */
struct aio_ring {
	unsigned int id, nr, head, tail, magic, compat_features, incompat_features, header_length;
	struct io_event events[];
};

static void reaped(void)
{
	struct aio_ring *ring;

	open_context();
	ring = (struct aio_ring *)context;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5; i++)
			set(i, "aio_write", IOCB_CMD_PWRITE, file, data, 1000, i * 1000);
		submit(5, 5);
		for (int i = 0; i < 5;) {
			unsigned int head = ring->head;

			if (head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
				continue;
			counted("aio_write", ring->events[head].res);
			__atomic_store_n(&ring->head, (head + 1) % ring->nr, __ATOMIC_RELEASE);
			i++;
		}
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "uring", uring }, { "polled", polled }, { "overflow", overflow }, { "quiet", quiet },
	{ "aio", aio },	    { "many", many },	  { "reaped", reaped },
};

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[2] : "";
	unsigned int kind = 0;

	while (kind < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[kind].name, what))
		kind++;
	if (kind == sizeof(kinds) / sizeof(kinds[0]) || chdir(argv[1])) {
		fprintf(stderr, "usage: known_queued DIR WHAT\n");
		return 2;
	}
	file = open("file", O_CREAT | O_RDWR, 0644);
	only_write = open("other", O_CREAT | O_WRONLY, 0644);
	if (file < 0 || only_write < 0 || pipe(ends))
		die("open");
	kinds[kind].run();
	if (unlink("file") || unlink("other"))
		die("unlink");
	printf("{\"families\":{");
	for (int i = 0; i < FAMILIES && families[i].name; i++)
		printf("%s\"%s\":{\"count\":%ld,\"bytes\":%ld,\"errors\":%ld}", i ? "," : "",
		       families[i].name, families[i].count, families[i].bytes, families[i].errors);
	printf("},\"on_pipes\":%ld}\n", on_pipes);
	return 0;
}
