// SPDX-License-Identifier: BSD-2-Clause
/*
 * The files DISK.blktrace.CPU, as the blktrace program would have written them.
 *
 * These files add what the tracer leaves out: the magic number, the time, a sequence number per event and file (with a
 * gap where events were lost), and the notify records of process names and of the wall clock. A file has whole records
 * only, also when the disk is full.
 */
#include "blktrace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES	(256 << 10)
#define MAGIC		(BLK_IO_TRACE_MAGIC | BLK_IO_TRACE_VERSION)
#define MAX_EVENT_BYTES (sizeof(struct blk_io_trace) + UINT16_MAX)

struct output {
	int fd;
	int error; /* errno of the write that failed: nothing is written after it */
	uint32_t sequence;
	off_t written;
	char *buffer;
	size_t filled;
	uint64_t events; /* in the buffer */
};

struct disk {
	uint32_t dev;
	struct output *outputs; /* one a CPU */
};

static struct disk disks[MAX_DISKS];
static int disk_count, cpu_count;
struct file_counts file_counts;

int files_open(const char *folder, const char *disk, uint32_t dev, int cpus)
{
	struct disk *new;

	if (disk_count == MAX_DISKS) {
		errno = E2BIG;
		return -1;
	}
	new = &disks[disk_count];
	new->dev = dev;
	new->outputs = calloc(cpus, sizeof(*new->outputs));
	if (!new->outputs)
		return -1;
	for (int cpu = 0; cpu < cpus; cpu++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s.blktrace.%d", folder, disk, cpu);
		new->outputs[cpu].fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (new->outputs[cpu].fd < 0)
			return -1;
	}
	cpu_count = cpus;
	disk_count++;
	return 0;
}

static void give_up(struct output *out, int error)
{
	out->error = error;
	/* If this fails too, the file ends within a record, which readers take for a cut end. */
	if (ftruncate(out->fd, out->written))
		out->error = errno;
}

static void lose(const struct output *out, uint64_t events)
{
	if (out->error == ENOSPC || out->error == EDQUOT)
		file_counts.disk_full += events;
	else
		file_counts.failed += events;
}

static void flush(struct output *out)
{
	size_t done = 0;

	while (done < out->filled && !out->error) {
		ssize_t bytes = write(out->fd, out->buffer + done, out->filled - done);

		if (bytes >= 0)
			done += bytes;
		else if (errno != EINTR)
			give_up(out, errno);
	}
	if (out->error) {
		lose(out, out->events);
	} else {
		out->written += out->filled;
		file_counts.recorded += out->events;
	}
	out->filled = 0;
	out->events = 0;
}

/* Room for one record in the buffer; NULL if nothing can be written to this file any more. */
static char *room(struct output *out, size_t bytes)
{
	if (out->filled + bytes > BUFFER_BYTES)
		flush(out);
	if (!out->buffer && !out->error) {
		out->buffer = malloc(BUFFER_BYTES);
		if (!out->buffer)
			give_up(out, ENOMEM);
	}
	if (out->error)
		return NULL;
	out->filled += bytes;
	return out->buffer + out->filled - bytes;
}

static bool note(struct output *out, uint32_t action, uint32_t pid, uint32_t dev, int cpu,
		 uint64_t t_ns, const void *pdu, uint16_t bytes)
{
	struct blk_io_trace head = { .magic = MAGIC,
				     .time = t_ns,
				     .action = action,
				     .pid = pid,
				     .device = dev,
				     .cpu = cpu,
				     .pdu_len = bytes };
	char *at = room(out, sizeof(head) + bytes);

	if (!at)
		return false;
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), pdu, bytes);
	return true;
}

/* Notes the name in each file before the thread's first event there: readers take one file after the other. */
static void note_name(int disk, struct output *out, uint32_t pid, int cpu, uint64_t t_ns)
{
	struct name *name = name_of(pid, cpu, t_ns);
	unsigned file = disk * cpu_count + cpu;

	if (!name || !name->known || name->noted[file / 8] >> file % 8 & 1)
		return;
	if (note(out, BLK_TN_PROCESS, pid, disks[disk].dev, cpu, t_ns, name->comm, COMM_BYTES)) {
		name->noted[file / 8] |= 1U << file % 8;
		file_counts.notes++;
	}
}

void files_note_time(void)
{
	struct timespec mono, real;
	uint32_t wall[2];

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	wall[0] = real.tv_sec;
	wall[1] = real.tv_nsec;
	for (int disk = 0; disk < disk_count; disk++) {
		note(&disks[disk].outputs[0], BLK_TN_TIMESTAMP, 0, disks[disk].dev, 0,
		     mono.tv_sec * 1000000000ULL + mono.tv_nsec, wall, sizeof(wall));
	}
}

void files_event(int cpu, uint64_t t_ns, const struct blk_io_trace *event, size_t bytes)
{
	struct blk_io_trace head;
	size_t length;
	struct output *out;
	char *at;
	int disk = 0;

	if (bytes < sizeof(head)) {
		file_counts.malformed++;
		return;
	}
	memcpy(&head, event, sizeof(head));
	length = sizeof(head) + head.pdu_len;
	if (length > bytes) {
		file_counts.malformed++;
		return;
	}
	while (disk < disk_count && disks[disk].dev != head.device)
		disk++;
	if (disk == disk_count) {
		file_counts.other_dev++;
		return;
	}
	out = &disks[disk].outputs[cpu];
	head.magic = MAGIC;
	head.time = t_ns;
	if (head.action & BLK_TC_ACT(BLK_TC_NOTIFY)) { /* the rest is not set by the kernel */
		head.sequence = 0;
		head.sector = 0;
		head.bytes = 0;
		head.error = 0;
	} else {
		note_name(disk, out, head.pid, cpu, t_ns);
		head.sequence = ++out->sequence;
	}
	at = room(out, length);
	if (!at) {
		lose(out, 1);
		return;
	}
	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), event + 1, head.pdu_len);
	out->events++;
}

void files_gap(int cpu, uint64_t lost)
{
	if (disk_count == 1) /* of several disks, the lost events' disk is not known */
		disks[0].outputs[cpu].sequence += lost;
}

void files_flush(void)
{
	for (int disk = 0; disk < disk_count; disk++) {
		for (int cpu = 0; cpu < cpu_count; cpu++)
			flush(&disks[disk].outputs[cpu]);
	}
}

int files_close(void)
{
	int failed = 0;

	files_flush();
	for (int disk = 0; disk < disk_count; disk++) {
		for (int cpu = 0; cpu < cpu_count; cpu++) {
			failed |= disks[disk].outputs[cpu].error;
			if (close(disks[disk].outputs[cpu].fd))
				failed = errno;
		}
	}
	return failed ? -1 : 0;
}
