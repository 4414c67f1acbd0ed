// SPDX-License-Identifier: BSD-2-Clause
/*
 * used PROGRAM ARGUMENT…: runs it, its output thrown away, and prints wall seconds, CPU seconds and largest memory in KiB.
 *
 * Small itself, as a child's largest memory counts from before its exec, when it was its parent's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(const struct timeval *time)
{
	return time->tv_sec + time->tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct timespec start, end;
	struct rusage used;
	int status, nowhere;
	pid_t child;

	if (argc < 2 || clock_gettime(CLOCK_MONOTONIC, &start))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	if (!child) {
		nowhere = open("/dev/null", O_WRONLY);
		if (nowhere < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0)
			_exit(127);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (wait4(child, &status, 0, &used) != child || clock_gettime(CLOCK_MONOTONIC, &end))
		return 1;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return 1;
	printf("%.6f %.6f %ld\n", end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9,
	       seconds(&used.ru_utime) + seconds(&used.ru_stime), used.ru_maxrss);
	return 0;
}
