// SPDX-License-Identifier: BSD-2-Clause
/* tree_find_order(): the readdir order of the dataset's names on the file system under test; see tree.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "tree.h"
#include "walk.h"

#define THROWAWAY "compilebench-order"

struct listing {
	const struct dataset *set;
	struct order *order;
	size_t n_files;
	size_t n_dirs;
};

static void list_file(void *context, int dir_fd, const char *name, const char *path)
{
	struct listing *list = context;

	(void)dir_fd;
	(void)name;
	if (list->n_files == list->set->n_files)
		fail(EXIT_RUN_FAILED, "%s: listed twice by readdir; run fsck", path);
	list->order->files[list->n_files++] = dataset_find_file(list->set, path);
}

static void list_dir(void *context, int dir_fd, const char *name, const char *path)
{
	struct listing *list = context;

	(void)dir_fd;
	(void)name;
	if (list->n_dirs == list->set->n_dirs)
		fail(EXIT_RUN_FAILED, "%s: listed twice by readdir; run fsck", path);
	list->order->dirs[list->n_dirs++] = dataset_find_dir(list->set, path);
}

static void remove_entry(int dir_fd, const char *name, const char *path, int flags)
{
	if (unlinkat(dir_fd, name, flags) != 0)
		fail_errno("cannot remove", path);
}

static void remove_file(void *context, int dir_fd, const char *name, const char *path)
{
	(void)context;
	remove_entry(dir_fd, name, path, 0);
}

static void remove_dir(void *context, int dir_fd, const char *name, const char *path)
{
	(void)context;
	remove_entry(dir_fd, name, path, AT_REMOVEDIR);
}

/* Creates the names of both states, sorted. The files are empty: only names decide the readdir order. */
static void create_names(const struct forest *forest)
{
	int top;

	if (mkdirat(forest->fd, THROWAWAY, 0755) != 0)
		fail_errno("cannot make the directory", THROWAWAY);
	top = openat(forest->fd, THROWAWAY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		fail_errno("cannot open the directory", THROWAWAY);
	for (size_t i = 0; i < forest->set->n_dirs; i++)
		if (mkdirat(top, forest->set->dirs[i].name, 0755) != 0)
			fail_errno("cannot make the directory", forest->set->dirs[i].name);
	for (size_t i = 0; i < forest->set->n_files; i++) {
		const char *name = forest->set->files[i].name;
		int fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		if (fd < 0)
			fail_errno("cannot create", name);
		if (close(fd) != 0)
			fail_errno("cannot close", name);
	}
	if (close(top) != 0)
		fail_errno("cannot close", THROWAWAY);
}

struct rank {
	size_t in_dir;	 /* number of files of the same directory that come before this file */
	size_t position; /* in readdir order */
	size_t file;
};

static int by_rank(const void *a, const void *b)
{
	const struct rank *x = a;
	const struct rank *y = b;

	if (x->in_dir != y->in_dir)
		return x->in_dir < y->in_dir ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

/*
 * A parallel make has jobs in many directories at a time: take the first object of every directory,
 * then the second of every directory, and so on. A build writes no source files, so their order does not matter.
 */
static size_t *makej_order(const struct dataset *set, const size_t *files)
{
	struct rank *ranks = must_alloc(calloc(set->n_files, sizeof(*ranks)));
	size_t *seen = must_alloc(calloc(set->n_dirs + 1, sizeof(*seen)));
	size_t *order = must_alloc(calloc(set->n_files, sizeof(*order)));

	for (size_t i = 0; i < set->n_files; i++) {
		const struct dataset_file *file = &set->files[files[i]];

		ranks[i] = (struct rank){
			.in_dir = file->object ? seen[file->dir]++ : 0,
			.position = i,
			.file = files[i],
		};
	}
	qsort(ranks, set->n_files, sizeof(*ranks), by_rank);
	for (size_t i = 0; i < set->n_files; i++)
		order[i] = ranks[i].file;
	free(ranks);
	free(seen);
	return order;
}

void tree_find_order(struct forest *forest)
{
	const struct dataset *set = forest->set;
	struct order *order = &forest->order;
	struct listing list = { .set = set, .order = order };
	const struct walk list_walk = { .enter_dir = list_dir,
					.file = list_file,
					.context = &list };
	const struct walk remove_walk = { .file = remove_file, .leave_dir = remove_dir };

	order->files = must_alloc(calloc(set->n_files, sizeof(*order->files)));
	order->dirs = must_alloc(calloc(set->n_dirs + 1, sizeof(*order->dirs)));
	create_names(forest);
	walk_tree(&list_walk, forest->fd, THROWAWAY);
	if (list.n_files != set->n_files || list.n_dirs != set->n_dirs)
		fail(EXIT_RUN_FAILED, "%s: readdir lists %zu of %zu files; run fsck", THROWAWAY,
		     list.n_files, set->n_files);
	walk_tree(&remove_walk, forest->fd, THROWAWAY);
	remove_entry(forest->fd, THROWAWAY, THROWAWAY, AT_REMOVEDIR);
	order->makej = makej_order(set, order->files);
}

void tree_free_order(struct forest *forest)
{
	free(forest->order.files);
	free(forest->order.dirs);
	free(forest->order.makej);
}
