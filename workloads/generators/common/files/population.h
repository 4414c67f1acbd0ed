// SPDX-License-Identifier: BSD-2-Clause
/*
 * The files of a web cache on disk. Sizes follow the model that Barford and Crovella fitted to the files of web servers
 * (SIGMETRICS 1998, table of model parameters): 93 % of the files in a log-normal body (mu 9.357, sigma 1.318; below
 * 133,000 bytes), the others in a Pareto tail (alpha 1.1, from 133,000 bytes). The tail ends at 4 MiB, Squid's default
 * maximum_object_size. Directories are those of Squid's cache_dir ufs: two levels of hexadecimal numbers, 16 by 256.
 * Each file is in a random directory.
 */
#ifndef GENERATORS_POPULATION_H
#define GENERATORS_POPULATION_H

#include <stdint.h>

#define POPULATION_TOP	       "webcache" /* the top directory */
#define POPULATION_CUT	       133000
#define POPULATION_BYTES_MAX   (4 * 1024 * 1024)
#define POPULATION_LEVEL_1     16
#define POPULATION_LEVEL_2_MAX 256
#define POPULATION_NAME_BYTES  64

struct cached_file {
	uint32_t directory; /* first level * second_level + second */
	uint32_t number;    /* gives the name and, with the seed, the contents */
	uint32_t bytes;
};

struct population {
	uint64_t seed;
	uint32_t second_level;	   /* directories in each directory of the first level */
	struct cached_file *files; /* sorted by directory */
	uint32_t count;
	uint64_t bytes;
};

/* Returns the number of directories: the top and both levels. */
uint64_t population_directories(uint32_t second_level);

/*
 * Draws as many files as fit into an archive of archive_bytes bytes (archive.h). The same arguments give the same
 * files. The caller frees `files`.
 */
struct population population_make(uint64_t archive_bytes, uint32_t second_level, uint64_t seed);

/* Writes the file's path, relative to the parent of POPULATION_TOP, to NAME. */
void population_name(const struct population *all, const struct cached_file *file,
		     char name[POPULATION_NAME_BYTES]);
/* Returns the key of the file's contents (contents.h). */
uint64_t population_contents(const struct population *all, const struct cached_file *file);

#endif
