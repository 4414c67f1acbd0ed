// SPDX-License-Identifier: BSD-2-Clause
/*
 * An allocator of numpy (NEP 49) that puts large arrays into files without a name.
 *
 * Such an array is a shared mapping of a file: the kernel may write its pages to the disk when memory is short, and
 * frees the file with the array, or when the process ends, however it ends. A thread takes the pages out of the
 * process when more than `resident_bytes` are in it; they stay in the page cache as long as there is room. Without
 * room for a file an array is in memory. Python code can't do this: numpy frees arrays while an exception is set.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PAGE_BYTES     4096 /* the least of any machine: mappings begin at a multiple of it */
#define FILES_MOST     4096
#define ALL_BYTES_MOST (64ULL << 30) /* of all files: what a stranger's run may claim */
#define SPARE_BYTES    (1ULL << 30)  /* left free on the file system */
#define POLL_US	       2000	     /* a pass over cached arrays touches some 50 MB in this time */
#define HANDLER_NAME   127

/* PyDataMem_Handler of numpy's C interface, version 1 */
struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t count, size_t size);
	void *(*realloc)(void *context, void *old, size_t size);
	void (*free)(void *context, void *old, size_t size);
};

struct handler {
	char name[HANDLER_NAME];
	uint8_t version;
	struct allocator allocator;
};

static struct file {
	void *start;
	size_t bytes;
} files[FILES_MOST];
static size_t files_used;
size_t spill_mapped_bytes;				 /* of all files now */
size_t spill_files_made;				 /* until now */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over all of the above */
static bool has_keeper;

static struct allocator memory; /* numpy's own */
static size_t least_bytes;
static size_t resident_bytes;
static int directory = -1;
static int statm = -1;

static size_t pages_of_files(void)
{
	char text[128];
	size_t pages = 0;
	ssize_t got = pread(statm, text, sizeof(text) - 1, 0);

	if (got <= 0)
		return 0;
	text[got] = '\0';
	return sscanf(text, "%*u %*u %zu", &pages) == 1 ? pages : 0;
}

static void *keep_small(void *unused)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	(void)unused;
	for (;;) {
		usleep(POLL_US);
		if (pages_of_files() * page_bytes <= resident_bytes)
			continue;
		pthread_mutex_lock(&lock);
		/* Of a shared mapping nothing is lost. A failure costs memory only. */
		for (size_t i = 0; i < files_used; i++)
			(void)madvise(files[i].start, files[i].bytes, MADV_DONTNEED);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* Starts the thread that keeps the process small; signals stay with Python's threads. Needs the lock. */
static void start_keeper(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	if (has_keeper || pthread_sigmask(SIG_SETMASK, &all, &before))
		return;
	has_keeper = pthread_create(&thread, NULL, keep_small, NULL) == 0;
	if (has_keeper)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int open_file(size_t bytes)
{
	struct statvfs space;
	int fd;

	if (fstatvfs(directory, &space) ||
	    (uint64_t)space.f_bavail * space.f_frsize < bytes + SPARE_BYTES)
		return -1;
	fd = openat(directory, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	/* Else a full disk would be a SIGBUS at some later store. */
	if (fallocate(fd, 0, 0, (off_t)bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns zeros in a file of their own, NULL if that is not possible. */
static void *map_file(size_t bytes)
{
	void *start = MAP_FAILED;
	bool is_kept = false;
	int fd = open_file(bytes);

	if (fd < 0)
		return NULL;
	start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (start == MAP_FAILED)
		return NULL;
	pthread_mutex_lock(&lock);
	if (files_used < FILES_MOST && spill_mapped_bytes + bytes <= ALL_BYTES_MOST) {
		files[files_used++] = (struct file){ start, bytes };
		spill_mapped_bytes += bytes;
		spill_files_made++;
		is_kept = true;
		start_keeper();
	}
	pthread_mutex_unlock(&lock);
	if (!is_kept)
		munmap(start, bytes);
	return is_kept ? start : NULL;
}

/* Returns the size of the file that is mapped here, 0 if none is; unmaps it if it is over. */
static size_t mapped_bytes(void *start, bool is_over)
{
	size_t bytes = 0;

	if ((uintptr_t)start % PAGE_BYTES)
		return 0;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < files_used; i++) {
		if (files[i].start != start)
			continue;
		bytes = files[i].bytes;
		if (is_over) {
			files[i] = files[--files_used];
			spill_mapped_bytes -= bytes;
		}
		break;
	}
	pthread_mutex_unlock(&lock);
	/* Freeing a file takes long: without the lock, so that the keeper goes on. */
	if (bytes && is_over)
		munmap(start, bytes);
	return bytes;
}

static void *spill_malloc(void *context, size_t size)
{
	void *start = size >= least_bytes ? map_file(size) : NULL;

	return start ? start : memory.malloc(context, size);
}

static void *spill_calloc(void *context, size_t count, size_t size)
{
	size_t bytes;
	void *start = NULL;

	if (!__builtin_mul_overflow(count, size, &bytes) && bytes >= least_bytes)
		start = map_file(bytes);
	return start ? start : memory.calloc(context, count, size);
}

static void spill_free(void *context, void *old, size_t size)
{
	if (!mapped_bytes(old, true))
		memory.free(context, old, size);
}

static void *spill_realloc(void *context, void *old, size_t size)
{
	size_t bytes = mapped_bytes(old, false);
	void *start;

	if (!bytes)
		return memory.realloc(context, old, size);
	start = spill_malloc(context, size);
	if (start) {
		memcpy(start, old, bytes < size ? bytes : size);
		mapped_bytes(old, true);
	}
	return start;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * The copy has the mappings, but not the thread. Memory would be a copy, a file is not: a store to it, which would
 * change the parent's array, ends the child.
 */
static void after_fork_in_child(void)
{
	for (size_t i = 0; i < files_used; i++)
		(void)mprotect(files[i].start, files[i].bytes, PROT_READ);
	has_keeper = false;
	statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (files_used)
		start_keeper();
	pthread_mutex_unlock(&lock);
}

static struct handler handler = {
	.name = "seekmeter_spill",
	.version = 1,
	.allocator = { NULL, spill_malloc, spill_calloc, spill_realloc, spill_free },
};

/*
 * Returns the handler that puts arrays of `least` bytes or more into files of the directory, NULL if that is not
 * possible. numpys: the handler in use until now, which gets all other arrays.
 */
struct handler *spill_start(const struct handler *numpys, const char *path, size_t least,
			    size_t resident)
{
	least_bytes = least;
	resident_bytes = resident;
	if (directory >= 0)
		return &handler;
	memory = numpys->allocator;
	handler.allocator.context = memory.context;
	statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (statm < 0 || pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child))
		return NULL;
	directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return directory >= 0 ? &handler : NULL;
}
