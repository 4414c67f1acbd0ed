// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive.h"
#include "contents.h"
#include "common/session/fail.h"
#include "common/session/steps.h"

#define BLOCK  512
#define RECORD (20 * BLOCK) /* an archive is whole records */
#define MTIME  1083369600   /* any time, but always the same: 1 May 2004 */

/* pax(1p), "ustar Interchange Format" */
struct header {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char chksum[8];
	char typeflag;
	char linkname[100];
	char magic[6];
	char version[2];
	char rest[247];
};

_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

static void put(int fd, const void *data, size_t bytes, const char *path)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t done = write(fd, at, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			fail_errno("cannot write", path);
		at += done;
		bytes -= (size_t)done;
	}
}

static void put_header(int fd, const char *name, char type, uint64_t bytes, const char *path)
{
	struct header header = { .typeflag = type, .magic = "ustar", .version = { '0', '0' } };
	unsigned int sum = 0;

	snprintf(header.name, sizeof(header.name), "%s", name);
	snprintf(header.mode, sizeof(header.mode), "%07o", type == '5' ? 0755 : 0644);
	snprintf(header.uid, sizeof(header.uid), "%07o", 0);
	snprintf(header.gid, sizeof(header.gid), "%07o", 0);
	snprintf(header.size, sizeof(header.size), "%011" PRIo64, bytes);
	snprintf(header.mtime, sizeof(header.mtime), "%011o", MTIME);
	memset(header.chksum, ' ', sizeof(header.chksum));
	for (size_t i = 0; i < sizeof(header); i++)
		sum += ((unsigned char *)&header)[i];
	snprintf(header.chksum, sizeof(header.chksum), "%06o", sum);
	put(fd, &header, sizeof(header), path);
}

uint64_t archive_file_bytes(uint64_t bytes)
{
	return BLOCK + (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Headers of the directories, two empty blocks at the end; up to a whole record. */
uint64_t archive_overhead(uint32_t second_level)
{
	return (1 + POPULATION_LEVEL_1 * (1 + second_level) + 2) * BLOCK + RECORD;
}

uint64_t archive_bytes(const struct population *all)
{
	uint64_t bytes = archive_overhead(all->second_level) - RECORD;

	for (uint32_t i = 0; i < all->count; i++)
		bytes += archive_file_bytes(all->files[i].bytes);
	return (bytes + RECORD - 1) / RECORD * RECORD;
}

static void put_directories(const struct population *all, int fd, const char *path)
{
	char name[POPULATION_NAME_BYTES];

	put_header(fd, POPULATION_TOP "/", '5', 0, path);
	for (uint32_t i = 0; i < POPULATION_LEVEL_1; i++) {
		snprintf(name, sizeof(name), POPULATION_TOP "/%02X/", i);
		put_header(fd, name, '5', 0, path);
		for (uint32_t j = 0; j < all->second_level; j++) {
			snprintf(name, sizeof(name), POPULATION_TOP "/%02X/%02X/", i, j);
			put_header(fd, name, '5', 0, path);
		}
	}
}

void archive_write(const struct population *all, int fd, const char *path)
{
	static const char nothing[RECORD];
	uint64_t bytes = archive_overhead(all->second_level) - RECORD;
	char name[POPULATION_NAME_BYTES];

	put_directories(all, fd, path);
	for (uint32_t i = 0; i < all->count; i++) {
		const struct cached_file *file = &all->files[i];

		population_name(all, file, name);
		put_header(fd, name, '0', file->bytes, path);
		contents_write(fd, file->bytes, population_contents(all, file), path);
		put(fd, nothing, (BLOCK - file->bytes % BLOCK) % BLOCK, path);
		bytes += archive_file_bytes(file->bytes);
		step_progress(i + 1);
	}
	put(fd, nothing, 2 * BLOCK + (RECORD - bytes % RECORD) % RECORD, path);
}
