// SPDX-License-Identifier: BSD-2-Clause
/*
 * A known number of every file-system call, with known bytes and errors.
 *
 *   known_calls DIR      DIR must be absolute and empty; all files are made and removed in it
 *
 * Prints one JSON object: for each family of calls their count, bytes and errors as the caller got them, calls
 * on a pipe apart; and of each read the latency by the program's own clock, and whether the thread lost its CPU meanwhile,
 * which may be on the way back from the kernel: after the call as others see it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FAMILIES    40
#define LARGE	    (1 << 20)
#define LARGE_READS 300
#define READS	    400 /* more than there are */

struct family {
	const char *name;
	long count, bytes, errors;
};

static struct family families[FAMILIES];
static long on_pipes, reads, switches;
static unsigned long long began_ns, read_ns[READS];
static char switched[READS];
static char data[LARGE], more[65536];

static struct family *family_of(const char *name)
{
	for (int i = 0; i < FAMILIES; i++) {
		if (!families[i].name)
			families[i].name = name;
		if (!strcmp(families[i].name, name))
			return &families[i];
	}
	abort();
}

/* Counts a call made through syscall(2), so that the C library can't turn it into another one. */
static long counted(const char *name, int moves, long result)
{
	struct family *family = family_of(name);

	family->count++;
	if (result < 0)
		family->errors++;
	else if (moves)
		family->bytes += result;
	return result;
}

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static long switches_now(void)
{
	struct rusage used;

	if (getrusage(RUSAGE_THREAD, &used))
		abort();
	return used.ru_nvcsw + used.ru_nivcsw;
}

static void read_begins(void)
{
	switches = switches_now();
	began_ns = now_ns();
}

static long read_ended(long result)
{
	unsigned long long ended_ns = now_ns();

	if (reads == READS)
		abort();
	switched[reads] = switches_now() != switches;
	read_ns[reads++] = ended_ns - began_ns;
	return counted("read", 1, result);
}

#define CALL(name, ...) counted(name, 0, syscall(__VA_ARGS__))
#define MOVE(name, ...) counted(name, 1, syscall(__VA_ARGS__))
#define READ(...)	(read_begins(), read_ended(syscall(__VA_ARGS__)))

static void read_and_write(int dir)
{
	struct iovec parts[2] = { { data, 50 }, { data, 70 } };
	int fd = CALL("open", SYS_openat, AT_FDCWD, "file", O_CREAT | O_RDWR, 0644);
	int only_write = CALL("open", SYS_openat, dir, "other", O_CREAT | O_WRONLY, 0644);

	for (int i = 0; i < 100; i++)
		MOVE("write", SYS_write, fd, data, 4096);
	for (int i = 0; i < 10; i++)
		MOVE("write", SYS_pwrite64, fd, data, 333, 1000);
	MOVE("write", SYS_writev, fd, parts, 2);
	MOVE("write", SYS_pwritev, fd, parts, 2, 0, 0);
	MOVE("write", SYS_pwritev2, fd, parts, 2, 0, 0, 0);
	MOVE("write", SYS_write, fd, NULL, 4096); /* EFAULT */
	for (int i = 0; i < 50; i++)
		READ(SYS_pread64, fd, data, 4096, i * 4096L);
	READ(SYS_pread64, fd, data, 65536, 400000L); /* short: the file ends before */
	READ(SYS_read, fd, data, 4096);		     /* at the end: 0 */
	READ(SYS_preadv, fd, parts, 2, 0, 0);
	READ(SYS_preadv2, fd, parts, 2, 0, 0, 0);
	lseek(fd, 0, SEEK_SET);
	READ(SYS_readv, fd, parts, 2);
	READ(SYS_read, only_write, data, 10); /* EBADF */
	READ(SYS_read, dir, data, 10);	      /* EISDIR */

	MOVE("copy", SYS_copy_file_range, fd, &(loff_t){ 0 }, only_write, &(loff_t){ 0 }, 10000, 0);
	MOVE("copy", SYS_sendfile, only_write, fd, &(off_t){ 100 }, 5000);
	CALL("readahead", SYS_readahead, fd, 0, 65536);
	CALL("readahead", SYS_fadvise64, fd, 0, 0, POSIX_FADV_WILLNEED);
	CALL("truncate", SYS_ftruncate, fd, LARGE);
	CALL("truncate", SYS_truncate, "other", 77);
	CALL("truncate", SYS_truncate, "missing", 77);
	CALL("fallocate", SYS_fallocate, fd, 0, 0, LARGE);
	CALL("fsync", SYS_fsync, fd);
	CALL("fsync", SYS_fsync, dir);
	CALL("fdatasync", SYS_fdatasync, fd);
	CALL("sync_file_range", SYS_sync_file_range, fd, 0, 4096, 0);
	CALL("syncfs", SYS_syncfs, fd);
	CALL("sync", SYS_sync);
	CALL("close", SYS_close, only_write);
	CALL("close", SYS_close, fd);
}

static void names(const char *absolute, int dir)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/absolute", absolute);
	fd = CALL("open", SYS_creat, path, 0600);
	CALL("close", SYS_close, fd);
	CALL("stat", SYS_stat, path, more);
	CALL("unlink", SYS_unlink, path);
	CALL("unlink", SYS_unlink, path); /* ENOENT */
	fd = CALL("open", SYS_open, "plain", O_CREAT | O_RDONLY, 0600);
	CALL("stat", SYS_fstat, fd, more);
	CALL("stat", SYS_newfstatat, fd, "", more, AT_EMPTY_PATH);
	CALL("stat", SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, more);
	CALL("stat", SYS_lstat, "plain", more);
	CALL("stat", SYS_newfstatat, dir, "plain", more, 0);
	CALL("stat", SYS_stat, "missing", more);
	for (int i = 0; i < 3; i++)
		CALL("open", SYS_openat, AT_FDCWD, "missing", O_RDONLY);
	CALL("access", SYS_access, "plain", R_OK);
	CALL("access", SYS_faccessat, dir, "missing", R_OK);
	CALL("mkdir", SYS_mkdir, "one", 0755);
	CALL("mkdir", SYS_mkdirat, dir, "two", 0755);
	CALL("mkdir", SYS_mkdirat, dir, "two", 0755); /* EEXIST */
	CALL("link", SYS_link, "plain", "linked");
	CALL("link", SYS_linkat, dir, "plain", dir, "linked2", 0);
	CALL("symlink", SYS_symlink, "plain", "soft");
	CALL("symlink", SYS_symlinkat, "plain", dir, "soft2");
	CALL("readlink", SYS_readlink, "soft", more, sizeof(more));
	CALL("readlink", SYS_readlinkat, dir, "soft2", more, sizeof(more));
	CALL("rename", SYS_rename, "linked", "renamed");
	CALL("rename", SYS_renameat, dir, "linked2", dir, "renamed2");
	CALL("rename", SYS_renameat2, dir, "renamed", dir, "renamed3", 0);
	CALL("rename", SYS_rename, "missing", "nowhere");
	CALL("setattr", SYS_chmod, "plain", 0640);
	CALL("setattr", SYS_fchmod, fd, 0644);
	CALL("setattr", SYS_fchmodat, dir, "plain", 0644);
	CALL("setattr", SYS_fchown, fd, getuid(), getgid());
	CALL("setattr", SYS_utimensat, fd, NULL, NULL, 0);
	CALL("setattr", SYS_utimensat, AT_FDCWD, "plain", NULL, 0);
	CALL("xattr", SYS_fsetxattr, fd, "user.known", "x", 1, 0);
	CALL("xattr", SYS_getxattr, "plain", "user.known", more, 10);
	CALL("xattr", SYS_getxattr, "plain", "user.missing", more, 10);
	while (CALL("readdir", SYS_getdents64, dir, more, sizeof(more)) > 0)
		;
	CALL("rmdir", SYS_rmdir, "one");
	CALL("unlink", SYS_unlinkat, dir, "two", AT_REMOVEDIR);
	CALL("unlink", SYS_unlinkat, dir, "soft", 0);
	CALL("unlink", SYS_unlink, "soft2");
	CALL("unlink", SYS_unlink, "renamed2");
	CALL("unlink", SYS_unlink, "renamed3");
	CALL("unlink", SYS_unlink, "plain");
	CALL("close", SYS_close, fd);
}

static void mapped_and_queued(void)
{
	int fd = CALL("open", SYS_openat, AT_FDCWD, "file", O_RDWR);
	char *memory = (char *)CALL("mmap", SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
				    MAP_SHARED, fd, 0);

	memory[0] = 'x';
	CALL("msync", SYS_msync, memory, 4096, MS_SYNC);
	munmap(memory, 4096);
	CALL("io_uring", SYS_io_uring_enter, -1, 1, 0, 0, NULL, 0);
	CALL("aio", SYS_io_submit, 0, 1, NULL);
	CALL("close", SYS_close, fd);
}

static void pipes(void)
{
	int ends[2];

	if (pipe(ends))
		abort();
	for (int i = 0; i < 20; i++) {
		on_pipes += 2;
		if (syscall(SYS_write, ends[1], data, 100) != 100 ||
		    syscall(SYS_read, ends[0], data, 100) != 100)
			abort();
	}
	syscall(SYS_close, ends[0]);
	syscall(SYS_close, ends[1]);
	on_pipes += 2;
}

static void large_reads(void)
{
	int fd = CALL("open", SYS_openat, AT_FDCWD, "file", O_RDONLY);

	for (int i = 0; i < LARGE_READS; i++)
		READ(SYS_pread64, fd, data, LARGE, 0);
	CALL("close", SYS_close, fd);
}

int main(int argc, char **argv)
{
	int dir;

	if (argc != 2 || chdir(argv[1])) {
		fprintf(stderr, "usage: known_calls DIR\n");
		return 2;
	}
	memset(data, 'x', sizeof(data));
	dir = CALL("open", SYS_openat, AT_FDCWD, ".", O_RDONLY | O_DIRECTORY);
	read_and_write(dir);
	names(argv[1], dir);
	mapped_and_queued();
	pipes();
	large_reads();
	CALL("unlink", SYS_unlink, "file");
	CALL("unlink", SYS_unlink, "other");
	CALL("close", SYS_close, dir);

	printf("{\"families\":{");
	for (int i = 0; i < FAMILIES && families[i].name; i++)
		printf("%s\"%s\":{\"count\":%ld,\"bytes\":%ld,\"errors\":%ld}", i ? "," : "",
		       families[i].name, families[i].count, families[i].bytes, families[i].errors);
	printf("},\"on_pipes\":%ld,\"read_ns\":[", on_pipes);
	for (int i = 0; i < reads; i++)
		printf("%s[%llu,%d]", i ? "," : "", read_ns[i], switched[i]);
	puts("]}");
	return 0;
}
