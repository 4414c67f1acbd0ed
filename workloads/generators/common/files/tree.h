// SPDX-License-Identifier: BSD-2-Clause
/*
 * What compilebench does to one tree of the dataset. Every function returns what it did; it ends the
 * program if a call fails or if the tree is not what it should be.
 */
#ifndef GENERATORS_TREE_H
#define GENERATORS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset.h"

/* The dataset in the file system's own order; all arrays are indexes into the dataset's. */
struct order {
	size_t *files; /* readdir order */
	size_t *dirs;  /* readdir order, a parent before what is in it */
	size_t *makej; /* files: the first of every directory, then every second one, and so on */
};

struct tree {
	unsigned int number; /* its directory is tree-NUMBER */
	bool exists;
	bool compiled;
	int state; /* UNPATCHED or PATCHED */
};

struct work {
	uint64_t files; /* created, written, removed, read or looked at */
	uint64_t bytes; /* of file data written, read, or in the removed files */
};

/* The directory the trees are in, and what they are made of. */
struct forest {
	int fd;
	const struct dataset *set;
	struct order order;
	bool makej; /* compile in order.makej */
};

/* Finds order by creating all names, empty and sorted, in a throwaway directory; then removes it. */
void tree_find_order(struct forest *forest);
void tree_free_order(struct forest *forest);

struct work tree_create(const struct forest *forest, struct tree *tree);
struct work tree_patch(const struct forest *forest, struct tree *tree);
struct work tree_compile(const struct forest *forest, struct tree *tree);
struct work tree_clean(const struct forest *forest, struct tree *tree);
struct work tree_read(const struct forest *forest, struct tree *tree);
struct work tree_stat(const struct forest *forest, struct tree *tree);
struct work tree_delete(const struct forest *forest, struct tree *tree);

/*
 * All of its files are looked at: names and sizes, and of one in 64 the contents. Returns all files, and the bytes that
 * were read.
 */
struct work tree_verify(const struct forest *forest, const struct tree *tree);

/* FOUND must be what the tree holds if everything before went well; of deleted files the bytes are not known. */
void tree_expect(const struct forest *forest, const struct tree *tree, struct work found,
		 bool bytes_known);

/* Tells files apart, so that no two trees hold the same bytes under one name. STATE: in which it was written. */
uint64_t tree_contents_key(const struct tree *tree, size_t file, int state);

/* "tree-017"; the result is overwritten by the next call */
const char *tree_name(const struct tree *tree);

#endif
