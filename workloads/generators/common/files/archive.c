// SPDX-License-Identifier: BSD-2-Clause
/* Writes a population as a tar archive, which webcache extracts; see archive.h. */
#include <stdio.h>

#include "archive.h"
#include "common/session/steps.h"
#include "contents.h"
#include "ustar.h"

/* Length of the archive without the padding to a whole record. */
static uint64_t unpadded_bytes(const struct population *all)
{
	uint64_t bytes = ustar_overhead_bytes(population_directories(all->second_level));

	for (uint32_t i = 0; i < all->count; i++)
		bytes += ustar_file_bytes(all->files[i].bytes);
	return bytes;
}

uint64_t archive_bytes(const struct population *all)
{
	return (unpadded_bytes(all) + USTAR_RECORD - 1) / USTAR_RECORD * USTAR_RECORD;
}

static void put_directories(const struct population *all, int fd, const char *path)
{
	char name[POPULATION_NAME_BYTES];

	ustar_put_header(fd, POPULATION_TOP "/", USTAR_DIRECTORY, 0, path);
	for (uint32_t i = 0; i < POPULATION_LEVEL_1; i++) {
		snprintf(name, sizeof(name), POPULATION_TOP "/%02X/", i);
		ustar_put_header(fd, name, USTAR_DIRECTORY, 0, path);
		for (uint32_t j = 0; j < all->second_level; j++) {
			snprintf(name, sizeof(name), POPULATION_TOP "/%02X/%02X/", i, j);
			ustar_put_header(fd, name, USTAR_DIRECTORY, 0, path);
		}
	}
}

void archive_write(const struct population *all, int fd, const char *path)
{
	static const char zeros[USTAR_RECORD];
	char name[POPULATION_NAME_BYTES];

	put_directories(all, fd, path);
	for (uint32_t i = 0; i < all->count; i++) {
		const struct cached_file *file = &all->files[i];

		population_name(all, file, name);
		ustar_put_header(fd, name, USTAR_FILE, file->bytes, path);
		contents_write(fd, file->bytes, population_contents(all, file), path);
		ustar_put(fd, zeros, (USTAR_BLOCK - file->bytes % USTAR_BLOCK) % USTAR_BLOCK, path);
		step_progress(i + 1);
	}
	ustar_put(fd, zeros, USTAR_END_BLOCKS * USTAR_BLOCK, path);
	ustar_put(fd, zeros, archive_bytes(all) - unpadded_bytes(all), path);
}
