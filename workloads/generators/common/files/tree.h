// SPDX-License-Identifier: BSD-2-Clause
/*
 * compilebench's operations on one tree of the dataset. Each returns the files and bytes it worked on. A failed system
 * call, or a tree that differs from what was written, ends the program.
 */
#ifndef GENERATORS_TREE_H
#define GENERATORS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset.h"

/* Indexes of the dataset's files and directories, in the readdir order of the file system under test. */
struct order {
	size_t *files; /* readdir order */
	size_t *dirs;  /* readdir order, a parent before its subdirectories */
	size_t *makej; /* the first file of each directory, then the second of each, and so on */
};

struct tree {
	unsigned int number; /* its directory is tree-NUMBER */
	bool exists;
	bool compiled;
	int state; /* UNPATCHED or PATCHED */
};

struct work {
	uint64_t files; /* created, written, removed, read or stat'ed */
	uint64_t bytes; /* of file data written, read, or in the removed files */
};

/* The directory of all trees, and their dataset. */
struct forest {
	int fd;
	const struct dataset *set;
	struct order order;
	bool makej; /* compile in order.makej */
};

/* Sets `order`: creates all names, as empty files, sorted, in a throwaway directory; lists and removes them. */
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
 * Checks the names and sizes of all files in the tree, and the contents of one file in 64. Returns the number of files
 * and the bytes read.
 */
struct work tree_verify(const struct forest *forest, const struct tree *tree);

/* Ends the program unless HELD is what the tree must hold. bytes_known false: compares the number of files alone. */
void tree_expect(const struct forest *forest, const struct tree *tree, struct work held,
		 bool bytes_known);

/* The key of a file's contents (contents.h), which differs by tree, file and the STATE in which it was written. */
uint64_t tree_contents_key(const struct tree *tree, size_t file, int state);

/* Returns the tree's directory, as "tree-017". The next call overwrites the string. */
const char *tree_name(const struct tree *tree);

#endif
