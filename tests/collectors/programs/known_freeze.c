// SPDX-License-Identifier: BSD-2-Clause
/*
 * Waits of a known length because of a file system that is frozen (FIFREEZE) for HOLD_MS once all wait.
 *
 *   known_freeze DIR HOLD_MS            the waiter makes a file in DIR, which is frozen
 *   known_freeze DIR HOLD_MS ON_DIR     DIR lies on a disk that is a file below ON_DIR; that is frozen. The holder
 *                                       appends to a file in DIR past the page cache, so it waits for the disk
 *                                       with the file locked; the waiter writes to the same file.
 *
 * Prints what finish() does. However it ends, but for SIGKILL, nothing stays frozen.
 */
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "actors.h"

#define BLOCK 4096

static int frozen = -1, file;
static char *block;

static void put_back(void)
{
	if (frozen >= 0)
		ioctl(frozen, FITHAW, 0);
	frozen = -1;
}

static void put_back_and_die(int signal_number)
{
	put_back();
	_exit(128 + signal_number);
}

static long make_file(void)
{
	return open("new", O_CREAT | O_WRONLY, 0644);
}

static long append_direct(void)
{
	return pwrite(file, block, BLOCK, BLOCK);
}

int main(int argc, char **argv)
{
	unsigned long long thawed_ns;
	const char *dir = argc == 4 ? argv[3] : argv[1];
	int fd;

	if (argc < 3 || argc > 4)
		return 2;
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	if (fd < 0 || chdir(argv[1]) || posix_memalign((void **)&block, BLOCK, BLOCK))
		die(dir);
	memset(block, 'x', BLOCK);
	if (argc == 4)
		file = open("x", O_CREAT | O_RDWR | O_DIRECT, 0644);
	/* The maps of free blocks are read now: the holder is to wait for one write, nothing before. */
	if (file < 0 || (argc == 4 && (pwrite(file, block, BLOCK, 0) != BLOCK || fsync(file))))
		die("x");
	signal(SIGTERM, put_back_and_die);
	signal(SIGINT, put_back_and_die);
	signal(SIGALRM, put_back_and_die);
	alarm(PATIENCE_S + atoi(argv[2]) / 1000);
	if (ioctl(fd, FIFREEZE, 0))
		die("FIFREEZE");
	frozen = fd;
	if (argc == 4) {
		start_waiting("holder", append_direct);
		start_waiting("waiter", append_direct);
	} else {
		start_waiting("waiter", make_file);
	}
	usleep(atoi(argv[2]) * 1000);
	thawed_ns = now_ns();
	put_back();
	finish(thawed_ns);
	return 0;
}
