// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of threads, from /proc and from perf's records of forks and of new names, by exec or otherwise
 * (perf_event_open(2): PERF_RECORD_FORK, PERF_RECORD_COMM).
 *
 * A thread that lives for a millisecond is gone before its events are read. The last name under each id is kept in a
 * table of fixed size: where two ids share a slot, the later one stays. The table begins with the names in /proc.
 *
 * The tracer's own list of recent names (saved_cmdlines) would not do: the kernel can add no name while it is read, and
 * it is read as a whole (kernel/trace/trace_sched_switch.c). Where perf is not allowed, later names are missing.
 */
#include "blktrace.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (64 << 10)
#define SLOTS	   (1 << 16)

struct ring {
	struct perf_event_mmap_page *head;
	const unsigned char *data;
};

struct slot {
	uint64_t t_ns;
	uint32_t tid;
	char comm[COMM_BYTES];
};

/* What follows the header; sample_id is the time alone. */
struct comm_record {
	uint32_t pid, tid;
	char comm[COMM_BYTES]; /* shorter if the name is: it ends at a multiple of 8 bytes */
};

struct fork_record {
	uint32_t pid, ppid, tid, ptid;
	uint64_t t_ns;
};

static struct ring *rings;
static int ring_count;
static struct slot slots[SLOTS];

static bool open_ring(int cpu, struct ring *ring)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.comm = 1,
		.task = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	size_t page = sysconf(_SC_PAGESIZE);
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	void *mapping;

	if (fd < 0)
		return false;
	mapping = mmap(NULL, page + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd); /* the mapping keeps it */
	if (mapping == MAP_FAILED)
		return false;
	ring->head = mapping;
	ring->data = (const unsigned char *)mapping + page;
	return true;
}

/* Returns how many bytes of a small file were read, ended by NUL; -1 if it is not there. */
static ssize_t read_text(const char *path, char *text, size_t bytes)
{
	ssize_t done = 0, more;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((more = read(fd, text + done, bytes - 1 - done)) > 0)
		done += more;
	text[done] = '\0';
	close(fd);
	return done;
}

bool comms_from_proc(uint32_t pid, char *comm)
{
	char path[64];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	bytes = read_text(path, comm, COMM_BYTES + 1);
	if (bytes <= 0)
		return false;
	if (comm[bytes - 1] == '\n')
		comm[bytes - 1] = '\0';
	return true;
}

static struct slot *slot_of(uint32_t tid)
{
	return &slots[tid & (SLOTS - 1)];
}

static void keep(uint32_t tid, uint64_t t_ns, const char comm[COMM_BYTES])
{
	struct slot *slot = slot_of(tid);

	if (slot->t_ns > t_ns) /* another CPU's, read before */
		return;
	slot->t_ns = t_ns;
	slot->tid = tid;
	memcpy(slot->comm, comm, COMM_BYTES);
}

/* The threads of one process, or all processes: the entries of DIRECTORY that are numbers. */
static void each_number(const char *directory,
			void (*visit)(const char *directory, uint32_t number))
{
	DIR *dir = opendir(directory);
	struct dirent *entry;

	if (!dir) /* the process is gone */
		return;
	while ((entry = readdir(dir))) {
		char *end;
		unsigned long number = strtoul(entry->d_name, &end, 10);

		if (number && !*end)
			visit(directory, number);
	}
	closedir(dir);
}

static void keep_running(const char *directory, uint32_t tid)
{
	char comm[COMM_BYTES + 1];

	(void)directory; /* /proc/TID is there too */
	if (comms_from_proc(tid, comm))
		keep(tid, 0, comm);
}

static void keep_threads(const char *directory, uint32_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "%s/%u/task", directory, pid);
	each_number(path, keep_running);
}

int comms_open(int cpus)
{
	rings = calloc(cpus, sizeof(*rings));
	if (!rings)
		return -1;
	for (int cpu = 0; cpu < cpus; cpu++)
		ring_count += open_ring(cpu, &rings[ring_count]);
	/* A thread that runs already may fork a short-lived thread that keeps the inherited name. */
	each_number("/proc", keep_threads);
	return 0;
}

static void take(uint32_t type, const unsigned char *data, size_t bytes)
{
	if (type == PERF_RECORD_COMM && bytes > 2 * sizeof(uint32_t) + sizeof(uint64_t)) {
		struct comm_record record = { 0 };
		uint64_t t_ns;

		bytes -= sizeof(t_ns);
		memcpy(&t_ns, data + bytes, sizeof(t_ns));
		memcpy(&record, data, bytes < sizeof(record) ? bytes : sizeof(record));
		record.comm[COMM_BYTES - 1] = '\0';
		keep(record.tid, t_ns, record.comm);
	} else if (type == PERF_RECORD_FORK && bytes >= sizeof(struct fork_record)) {
		static const char none[COMM_BYTES];
		struct fork_record record;
		struct slot *parent;

		memcpy(&record, data, sizeof(record));
		parent = slot_of(record.ptid);
		/* Without the parent's name: none, rather than that of the id's earlier owner. */
		keep(record.tid, record.t_ns, parent->tid == record.ptid ? parent->comm : none);
	}
}

static void copy(const struct ring *ring, uint64_t at, void *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((unsigned char *)to)[i] = ring->data[(at + i) & (RING_BYTES - 1)];
}

void comms_read(void)
{
	for (int i = 0; i < ring_count; i++) {
		const struct ring *ring = &rings[i];
		uint64_t end = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
		uint64_t at = ring->head->data_tail;

		while (at < end) {
			struct perf_event_header head;
			unsigned char data[128];
			size_t bytes;

			copy(ring, at, &head, sizeof(head));
			if (head.size < sizeof(head))
				break;
			bytes = head.size - sizeof(head);
			if (bytes <= sizeof(data)) {
				copy(ring, at + sizeof(head), data, bytes);
				take(head.type, data, bytes);
			}
			at += head.size;
		}
		__atomic_store_n(&ring->head->data_tail, end, __ATOMIC_RELEASE);
	}
}

bool comms_name(uint32_t tid, char *comm)
{
	const struct slot *slot = slot_of(tid);

	if (!tid || slot->tid != tid || !slot->comm[0])
		return false;
	memcpy(comm, slot->comm, COMM_BYTES);
	return true;
}

bool comms_taken(uint32_t tid, uint64_t after_ns, uint64_t until_ns)
{
	const struct slot *slot = slot_of(tid);

	return tid && slot->tid == tid && slot->t_ns > after_ns && slot->t_ns <= until_ns;
}
