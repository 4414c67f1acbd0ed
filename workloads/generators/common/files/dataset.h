// SPDX-License-Identifier: BSD-2-Clause
/*
 * The dataset of compilebench: names and sizes of a kernel tree's files, unpatched and patched, and
 * of the files a build adds (workloads/datasets/README.md has the format).
 */
#ifndef GENERATORS_DATASET_H
#define GENERATORS_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNPATCHED, PATCHED, STATES }; /* index of the two-state arrays below */

struct dataset_dir {
	const char *name;	  /* relative to the tree's top, never the top itself */
	bool has_sources[STATES]; /* a source file is in it or below it in that state */
	bool has_objects[STATES]; /* the same for files a build adds */
};

struct dataset_file {
	const char *name;      /* relative to the tree's top */
	int64_t bytes[STATES]; /* -1: not there in that state */
	uint32_t dir;	       /* 0: the top, else 1 + index into dirs */
	bool object;	       /* a build adds it; else it is source */
	bool changed;	       /* its contents differ between the states */
};

struct dataset {
	struct dataset_file *files; /* sorted by name */
	size_t n_files;
	struct dataset_dir *dirs; /* sorted by name, so a parent comes before what is in it */
	size_t n_dirs;
};

/* Load DIRECTORY/linux-tree-{sources,objects}.tsv.gz. A missing or broken file ends the program. */
struct dataset dataset_load(const char *directory);

void dataset_free(struct dataset *set);

/* Index of the file or directory of that name; ends the program if there is none. */
size_t dataset_find_file(const struct dataset *set, const char *name);
size_t dataset_find_dir(const struct dataset *set, const char *name);

#endif
