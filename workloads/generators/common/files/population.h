// SPDX-License-Identifier: BSD-2-Clause
/*
 * The files of a web cache on disk. Sizes as Barford and Crovella fitted them to web servers' files (SIGMETRICS 1998,
 * table of model parameters): 93 % of the files in a log-normal body (mu 9.357, sigma 1.318; below 133,000 bytes),
 * the others in a Pareto tail (alpha 1.1, from 133,000 bytes). The tail ends at 4 MiB, above which Squid caches nothing
 * unless told to (maximum_object_size). Directories as Squid's cache_dir ufs has them: two levels of hexadecimal
 * numbers, 16 by 256, each file in one of them by chance.
 */
#ifndef GENERATORS_POPULATION_H
#define GENERATORS_POPULATION_H

#include <stdint.h>

#define POPULATION_TOP	       "webcache" /* the directory that all is in */
#define POPULATION_CUT	       133000
#define POPULATION_BYTES_MAX   (4 * 1024 * 1024)
#define POPULATION_LEVEL_1     16
#define POPULATION_LEVEL_2_MAX 256
#define POPULATION_NAME_BYTES  64

struct cached_file {
	uint32_t directory; /* first level * second_level + second */
	uint32_t number;    /* the name, and with the seed the contents */
	uint32_t bytes;
};

struct population {
	uint64_t seed;
	uint32_t second_level;	   /* directories in each of the first level */
	struct cached_file *files; /* directory by directory */
	uint32_t count;
	uint64_t bytes;
};

/* Directories of the population, the top and both levels. */
uint64_t population_directories(uint32_t second_level);

/*
 * As many files as fit into an archive of archive_bytes bytes (archive.h). The same arguments give the same files. To be
 * freed by free(files).
 */
struct population population_make(uint64_t archive_bytes, uint32_t second_level, uint64_t seed);

/* The file's path, below the directory that contains POPULATION_TOP. */
void population_name(const struct population *all, const struct cached_file *file,
		     char name[POPULATION_NAME_BYTES]);
/* The seed of the file's contents (contents.h). */
uint64_t population_contents(const struct population *all, const struct cached_file *file);

#endif
