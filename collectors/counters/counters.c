// SPDX-License-Identifier: BSD-2-Clause
/*
 * The counters collector: CPU, memory, pressure (PSI) and disk counters of the whole system, sampled once per time bin
 * and at the borders of phases, into counter.rec.
 *
 * No BPF: the kernel's text files below /proc and /sys, kept open and read again. Cumulative values are the kernel's
 * (since boot), in nanoseconds and bytes; disk.in_flight and the mem.* are values of the moment. vm.* count what took
 * pages from memory: drop_caches, swapping, and reads of what had been reclaimed. A sample's time is taken just before
 * its file is read. disk.* are sampled of every device that is recorded or named with --counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/clock.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/rec_layout.h"
#include "recorder/registry.h"

#define TEXT_BYTES 65536 /* the first line of /proc/stat is needed, which has a line per CPU */
#define SECTOR	   512

enum counter_name {
	CPU_USER,
	CPU_SYSTEM,
	CPU_IDLE,
	CPU_IOWAIT,
	CPU_IRQ,
	MEM_DIRTY,
	MEM_WRITEBACK,
	MEM_CACHED,
	MEM_FREE,
	VM_CACHE_DROPS,
	VM_REFAULT,
	VM_SWAP_IN,
	VM_SWAP_OUT,
	PSI_CPU_SOME,
	PSI_IO_SOME,
	PSI_IO_FULL,
	PSI_MEMORY_SOME,
	PSI_MEMORY_FULL,
	DISK_READ_REQUESTS,
	DISK_READ_BYTES,
	DISK_WRITE_REQUESTS,
	DISK_WRITE_BYTES,
	DISK_DISCARD_REQUESTS,
	DISK_DISCARD_BYTES,
	DISK_FLUSH_REQUESTS,
	DISK_BUSY,
	DISK_IN_FLIGHT,
	NAME_COUNT,
};

static const char *const names[NAME_COUNT] = {
	[CPU_USER] = "cpu.user_ns",
	[CPU_SYSTEM] = "cpu.system_ns",
	[CPU_IDLE] = "cpu.idle_ns",
	[CPU_IOWAIT] = "cpu.iowait_ns",
	[CPU_IRQ] = "cpu.irq_ns",
	[MEM_DIRTY] = "mem.dirty_bytes",
	[MEM_WRITEBACK] = "mem.writeback_bytes",
	[MEM_CACHED] = "mem.cached_bytes",
	[MEM_FREE] = "mem.free_bytes",
	[VM_CACHE_DROPS] = "vm.cache_drops",
	[VM_REFAULT] = "vm.refault_bytes",
	[VM_SWAP_IN] = "vm.swap_in_bytes",
	[VM_SWAP_OUT] = "vm.swap_out_bytes",
	[PSI_CPU_SOME] = "psi.cpu_some_ns",
	[PSI_IO_SOME] = "psi.io_some_ns",
	[PSI_IO_FULL] = "psi.io_full_ns",
	[PSI_MEMORY_SOME] = "psi.memory_some_ns",
	[PSI_MEMORY_FULL] = "psi.memory_full_ns",
	[DISK_READ_REQUESTS] = "disk.read_requests",
	[DISK_READ_BYTES] = "disk.read_bytes",
	[DISK_WRITE_REQUESTS] = "disk.write_requests",
	[DISK_WRITE_BYTES] = "disk.write_bytes",
	[DISK_DISCARD_REQUESTS] = "disk.discard_requests",
	[DISK_DISCARD_BYTES] = "disk.discard_bytes",
	[DISK_FLUSH_REQUESTS] = "disk.flush_requests",
	[DISK_BUSY] = "disk.busy_ns",
	[DISK_IN_FLIGHT] = "disk.in_flight",
};

struct counter_record {
	uint64_t t_ns;
	int64_t value;
	uint32_t dev; /* major << 20 | minor; 0: the system's */
	uint16_t name;
	uint8_t pad[2]; /* not in the header: no reader sees it */
};

/* A text file of the kernel, read at each sample. */
struct kernel_file {
	const char *path;    /* NULL: of a disk, below /sys/block */
	const char *missing; /* note when it can't be read */
	void (*parse)(char *text, uint64_t now);
	int fd;
	uint32_t dev;
};

/* sample() is called by the main thread, and by the thread of borders.c. */
static pthread_mutex_t sampling = PTHREAD_MUTEX_INITIALIZER;
static struct collector_state state;
static struct rec_file *file;
/* Of one sample: the system's counters, and those of each disk. */
static struct counter_record batch[NAME_COUNT + 2 * MAX_DEVS * (NAME_COUNT - DISK_READ_REQUESTS)];
static size_t batch_count;
static uint32_t batch_dev;
static uint64_t bin_ns, next_ns;
static long tick_ns;
static char text[TEXT_BYTES];

static void put(int name, uint64_t now, uint64_t value)
{
	if (batch_count < sizeof(batch) / sizeof(batch[0]))
		batch[batch_count++] = (struct counter_record){
			.t_ns = now, .value = value, .dev = batch_dev, .name = name
		};
}

/* "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guest is part of user already. */
static void parse_stat(char *line, uint64_t now)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq;

	if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		   &iowait, &irq, &softirq) != 7)
		return;
	put(CPU_USER, now, (user + nice) * tick_ns);
	put(CPU_SYSTEM, now, system * tick_ns);
	put(CPU_IDLE, now, idle * tick_ns);
	put(CPU_IOWAIT, now, iowait * tick_ns);
	put(CPU_IRQ, now, (irq + softirq) * tick_ns);
}

/* "Dirty:   12 kB" at the beginning of a line, in units of so many. */
static void put_labelled(const char *all, const char *label, long unit, int name, uint64_t now)
{
	const char *at = all;
	size_t bytes = strlen(label);

	while (at && strncmp(at, label, bytes) != 0) {
		at = strchr(at, '\n');
		if (at)
			at++;
	}
	if (at)
		put(name, now, strtoull(at + bytes, NULL, 10) * unit);
}

static void parse_meminfo(char *all, uint64_t now)
{
	put_labelled(all, "Dirty:", 1024, MEM_DIRTY, now);
	put_labelled(all, "Writeback:", 1024, MEM_WRITEBACK, now);
	put_labelled(all, "Cached:", 1024, MEM_CACHED, now);
	put_labelled(all, "MemFree:", 1024, MEM_FREE, now);
}

static void parse_vmstat(char *all, uint64_t now)
{
	long page = sysconf(_SC_PAGESIZE);

	put_labelled(all, "drop_pagecache ", 1, VM_CACHE_DROPS, now);
	put_labelled(all, "workingset_refault_file ", page, VM_REFAULT, now);
	put_labelled(all, "pswpin ", page, VM_SWAP_IN, now);
	put_labelled(all, "pswpout ", page, VM_SWAP_OUT, now);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", total in microseconds */
static void put_pressure(const char *all, const char *kind, int name, uint64_t now)
{
	const char *line = strstr(all, kind);
	const char *total = line ? strstr(line, "total=") : NULL;

	if (total)
		put(name, now, strtoull(total + strlen("total="), NULL, 10) * 1000);
}

static void parse_psi_cpu(char *all, uint64_t now)
{
	put_pressure(all, "some ", PSI_CPU_SOME, now);
}

static void parse_psi_io(char *all, uint64_t now)
{
	put_pressure(all, "some ", PSI_IO_SOME, now);
	put_pressure(all, "full ", PSI_IO_FULL, now);
}

static void parse_psi_memory(char *all, uint64_t now)
{
	put_pressure(all, "some ", PSI_MEMORY_SOME, now);
	put_pressure(all, "full ", PSI_MEMORY_FULL, now);
}

/* Documentation/block/stat.rst; discards since 4.18, flushes since 5.5 */
static void parse_disk(char *line, uint64_t now)
{
	unsigned long long v[17] = { 0 };
	int got = 0;

	for (char *rest = line, *end; got < 17; got++, rest = end) {
		v[got] = strtoull(rest, &end, 10);
		if (end == rest)
			break;
	}
	if (got < 11)
		return;
	put(DISK_READ_REQUESTS, now, v[0]);
	put(DISK_READ_BYTES, now, v[2] * SECTOR);
	put(DISK_WRITE_REQUESTS, now, v[4]);
	put(DISK_WRITE_BYTES, now, v[6] * SECTOR);
	put(DISK_IN_FLIGHT, now, v[8]);
	put(DISK_BUSY, now, v[9] * NS_PER_MS);
	if (got >= 15) {
		put(DISK_DISCARD_REQUESTS, now, v[11]);
		put(DISK_DISCARD_BYTES, now, v[13] * SECTOR);
	}
	if (got >= 17)
		put(DISK_FLUSH_REQUESTS, now, v[15]);
}

#define SYSTEM_FILES 6
/* Behind these: a file of each disk. */
static struct kernel_file files[SYSTEM_FILES + 2 * MAX_DEVS] = {
	{ "/proc/stat", "/proc/stat can't be read", parse_stat, -1, 0 },
	{ "/proc/meminfo", "/proc/meminfo can't be read", parse_meminfo, -1, 0 },
	{ "/proc/vmstat", "/proc/vmstat can't be read", parse_vmstat, -1, 0 },
	{ "/proc/pressure/cpu", "no CPU pressure (boot with psi=1)", parse_psi_cpu, -1, 0 },
	{ "/proc/pressure/io", "no I/O pressure (boot with psi=1)", parse_psi_io, -1, 0 },
	{ "/proc/pressure/memory", "no memory pressure (boot with psi=1)", parse_psi_memory, -1,
	  0 },
};
static size_t file_count;

/* All of a file into text, which a call may give a page of at most; 0: it can't be read. */
static size_t read_text(int fd)
{
	size_t bytes = 0;
	ssize_t n;

	while (bytes < sizeof(text) - 1 &&
	       (n = pread(fd, text + bytes, sizeof(text) - 1 - bytes, bytes)) > 0)
		bytes += n;
	text[bytes] = 0;
	return bytes;
}

static void sample(void)
{
	batch_count = 0;
	for (size_t i = 0; i < file_count; i++) {
		uint64_t now = monotonic_ns();

		if (files[i].fd < 0)
			continue;
		if (!read_text(files[i].fd)) {
			reason_add(state.lost, files[i].missing, 1);
			state.seen++; /* a lost sample counts as seen */
			continue;
		}
		batch_dev = files[i].dev;
		files[i].parse(text, now);
	}
	state.seen += batch_count;
	/* Atomic: a flush by another thread may subtract. */
	__atomic_fetch_add(&state.recorded, rec_file_write(file, &state, batch, batch_count),
			   __ATOMIC_RELAXED);
}

static void at_border(void)
{
	pthread_mutex_lock(&sampling);
	if (state.on)
		sample();
	pthread_mutex_unlock(&sampling);
}

static void close_all(void)
{
	rec_file_close(file, &state);
	file = NULL;
	for (size_t i = 0; i < file_count; i++) {
		if (files[i].fd >= 0)
			close(files[i].fd);
		files[i].fd = -1;
	}
	file_count = 0;
}

static int open_table(const struct options *options)
{
	char *json = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&json, &bytes);

	if (!out)
		return -1;
	rec_layout_begin(out, options, "counter", sizeof(struct counter_record));
	fprintf(out,
		"{\"name\":\"t_ns\",\"offset\":%zu,\"bytes\":8,\"type\":\"u64\"},"
		"{\"name\":\"value\",\"offset\":%zu,\"bytes\":8,\"type\":\"i64\"},"
		"{\"name\":\"dev\",\"offset\":%zu,\"bytes\":4,\"type\":\"u32\"},"
		"{\"name\":\"name\",\"offset\":%zu,\"bytes\":2,\"type\":\"u16\",\"enum\":\"counter_name\"}],"
		"\"enums\":{\"counter_name\":{",
		offsetof(struct counter_record, t_ns), offsetof(struct counter_record, value),
		offsetof(struct counter_record, dev), offsetof(struct counter_record, name));
	for (int i = 0; i < NAME_COUNT; i++)
		fprintf(out, "%s\"%d\":\"%s\"", i ? "," : "", i, names[i]);
	fputs("}}}", out);
	if (fclose(out) == 0)
		file = rec_file_open_json(options, "counter", json, sizeof(struct counter_record));
	free(json);
	return file ? 0 : -1;
}

/* Opens the file; a note says if it can't be read. path: the file's. */
static void open_file(struct kernel_file *of, const char *path)
{
	char byte;

	of->fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Where PSI is off the files may be there and refuse to be read. */
	if (of->fd >= 0 && pread(of->fd, &byte, 1, 0) != 1) {
		close(of->fd);
		of->fd = -1;
	}
	if (of->fd < 0)
		reason_add(state.notes, of->missing, 1);
}

static void add_disk(const struct disk *disk)
{
	struct kernel_file *of = &files[file_count++];
	char path[sizeof("/sys/block//stat") + sizeof(disk->name)];

	*of = (struct kernel_file){ NULL, "the disk's counters can't be read", parse_disk, -1,
				    disk->major << 20 | disk->minor };
	snprintf(path, sizeof(path), "/sys/block/%s/stat", disk->name);
	open_file(of, path);
}

static int open_all(const struct options *options)
{
	bin_ns = options->bin_ns;
	tick_ns = 1000000000L / sysconf(_SC_CLK_TCK);
	for (file_count = 0; file_count < SYSTEM_FILES; file_count++)
		open_file(&files[file_count], files[file_count].path);
	for (int i = 0; i < options->disk_count; i++)
		add_disk(&options->disks[i]);
	for (int i = 0; i < options->counted_count; i++)
		add_disk(&options->counted[i]);
	if (files[0].fd < 0)
		return collector_off(&state, "mount proc on /proc", "/proc/stat can't be read: %s",
				     strerror(errno));
	if (open_table(options))
		return collector_off(&state, "free some space", "counter.rec can't be written: %s",
				     strerror(errno));
	return 0;
}

/* The first sample. */
static int attach(void)
{
	sample();
	next_ns = (monotonic_ns() / bin_ns + 1) * bin_ns;
	return 0;
}

static void take_sample(uint64_t now)
{
	uint64_t late = now >= next_ns + bin_ns ? (now - next_ns) / bin_ns : 0;

	pthread_mutex_lock(&sampling);
	if (late)
		reason_add(state.lost, "sample late by more than a bin", late);
	state.seen += late;
	sample();
	pthread_mutex_unlock(&sampling);
	next_ns = (now / bin_ns + 1) * bin_ns;
}

static void drain(bool last)
{
	uint64_t now = monotonic_ns();

	if (!last && now >= next_ns)
		take_sample(now);
}

/* The last sample; nothing is left to drain after it (detach_all() in main.c). */
static void detach(void)
{
	take_sample(monotonic_ns());
}

static const struct collector_ops counters_collector = {
	.name = "counters",
	.order = 90,
	.on_by_default = true,
	.reads_totals = true,
	.open = open_all,
	.attach = attach,
	.drain = drain,
	.at_border = at_border,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(counters_collector)
