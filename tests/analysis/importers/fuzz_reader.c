// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer's way into a reader of traces: its main(), renamed, with the bytes as its one file, or as its standard
 * input. READER: the file with that main(). OF_FILE: its words are DIRECTORY FILE; else one word, OUTPUT.
 */
#include <stddef.h>
#include <stdint.h>

#define main reader_main
#include READER
#undef main

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char path[32];
	static int fd = -1;
#ifdef OF_FILE
	char *words[] = { "reader", "/tmp", path, NULL };
#else
	char *words[] = { "reader", "/dev/null", NULL };
#endif
	int status;

	if (fd < 0) {
		fd = memfd_create("trace", 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
#ifdef OF_FILE
	if (getenv("FUZZ_OUT"))
		words[1] = getenv("FUZZ_OUT");
	status = reader_main(3, words);
#else
	if (dup2(fd, STDIN_FILENO) < 0 || lseek(fd, 0, SEEK_SET))
		abort();
	status = reader_main(2, words);
#endif
	/* 1 would be a failure of the machine's; 2 says that the bytes are no trace. */
	if (status != 0 && status != 2)
		abort();
	return 0;
}
