// SPDX-License-Identifier: BSD-2-Clause
/* compilebench's operations on one tree: create, patch, compile, clean, read, stat, delete; see tree.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contents.h"
#include "common/session/fail.h"
#include "tree.h"
#include "walk.h"

/* Suffix of a patched file's new version until rename(2) replaces the old version. */
#define NEW_VERSION ".compilebench-new"

const char *tree_name(const struct tree *tree)
{
	static char name[32];

	snprintf(name, sizeof(name), "tree-%03u", tree->number);
	return name;
}

static int open_tree(const struct forest *forest, const struct tree *tree)
{
	int fd = openat(forest->fd, tree_name(tree), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail_errno("cannot open the tree", tree_name(tree));
	return fd;
}

static void close_checked(int fd, const char *name)
{
	if (close(fd) != 0)
		fail_errno("cannot close", name);
}

/* Creates the file WRITTEN_AS; NAME is the name in messages. */
static void create_file(int top_fd, const char *written_as, const char *name, int64_t bytes,
			uint64_t key)
{
	int fd = openat(top_fd, written_as, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_errno("cannot create", name);
	contents_write(fd, (uint64_t)bytes, key, name);
	close_checked(fd, name);
}

static void make_dir(int fd, const char *name)
{
	if (mkdirat(fd, name, 0755) != 0)
		fail_errno("cannot make the directory", name);
}

static void remove_dir(int fd, const char *name)
{
	if (unlinkat(fd, name, AT_REMOVEDIR) != 0)
		fail_errno("cannot remove the directory", name);
}

static void remove_file(int fd, const char *name)
{
	if (unlinkat(fd, name, 0) != 0)
		fail_errno("cannot remove", name);
}

uint64_t tree_contents_key(const struct tree *tree, size_t file, int state)
{
	return ((uint64_t)tree->number << 32 | file) * STATES + (uint64_t)state;
}

struct work tree_create(const struct forest *forest, struct tree *tree)
{
	const struct dataset *set = forest->set;
	struct work work = { 0 };
	int top;

	make_dir(forest->fd, tree_name(tree));
	top = open_tree(forest, tree);
	for (size_t i = 0; i < set->n_dirs; i++) {
		const struct dataset_dir *dir = &set->dirs[forest->order.dirs[i]];

		if (dir->has_sources[UNPATCHED])
			make_dir(top, dir->name);
	}
	for (size_t i = 0; i < set->n_files; i++) {
		size_t index = forest->order.files[i];
		const struct dataset_file *file = &set->files[index];

		if (file->object || file->bytes[UNPATCHED] < 0)
			continue;
		create_file(top, file->name, file->name, file->bytes[UNPATCHED],
			    tree_contents_key(tree, index, UNPATCHED));
		work.files++;
		work.bytes += (uint64_t)file->bytes[UNPATCHED];
	}
	close_checked(top, tree_name(tree));
	tree->exists = true;
	tree->compiled = false;
	tree->state = UNPATCHED;
	return work;
}

/* Patches one file like patch(1): reads the old version, writes the new version, renames it over the old version. */
static void patch_file(int top, const struct dataset_file *file, uint64_t key)
{
	char new_version[4096];

	if (file->bytes[UNPATCHED] >= 0) {
		int fd = openat(top, file->name, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			fail_errno("cannot open", file->name);
		if (contents_read(fd, file->name) != (uint64_t)file->bytes[UNPATCHED])
			fail(EXIT_RUN_FAILED, "%s: its size is not what was written; run fsck",
			     file->name);
		close_checked(fd, file->name);
	}
	if (file->bytes[PATCHED] < 0) {
		remove_file(top, file->name);
		return;
	}
	if (file->bytes[UNPATCHED] < 0) {
		create_file(top, file->name, file->name, file->bytes[PATCHED], key);
		return;
	}
	if ((size_t)snprintf(new_version, sizeof(new_version), "%s" NEW_VERSION, file->name) >=
	    sizeof(new_version))
		fail(EXIT_RUN_FAILED, "%s: the name is too long; shorten it in the dataset",
		     file->name);
	create_file(top, new_version, file->name, file->bytes[PATCHED], key);
	if (renameat(top, new_version, top, file->name) != 0)
		fail_errno("cannot rename the new version over it", file->name);
}

struct work tree_patch(const struct forest *forest, struct tree *tree)
{
	const struct dataset *set = forest->set;
	struct work work = { 0 };
	int top = open_tree(forest, tree);

	for (size_t i = 0; i < set->n_dirs; i++) {
		const struct dataset_dir *dir = &set->dirs[forest->order.dirs[i]];

		if (dir->has_sources[PATCHED] && !dir->has_sources[UNPATCHED])
			make_dir(top, dir->name);
	}
	for (size_t i = 0; i < set->n_files; i++) {
		size_t index = forest->order.files[i];
		const struct dataset_file *file = &set->files[index];

		if (file->object || !file->changed)
			continue;
		patch_file(top, file, tree_contents_key(tree, index, PATCHED));
		work.files++;
		if (file->bytes[PATCHED] > 0)
			work.bytes += (uint64_t)file->bytes[PATCHED];
	}
	for (size_t i = set->n_dirs; i-- > 0;) { /* backwards: subdirectories before their parent */
		const struct dataset_dir *dir = &set->dirs[forest->order.dirs[i]];

		if (dir->has_sources[UNPATCHED] && !dir->has_sources[PATCHED])
			remove_dir(top, dir->name);
	}
	close_checked(top, tree_name(tree));
	tree->state = PATCHED;
	return work;
}

struct work tree_compile(const struct forest *forest, struct tree *tree)
{
	const size_t *order = forest->makej ? forest->order.makej : forest->order.files;
	const struct dataset *set = forest->set;
	struct work work = { 0 };
	int top = open_tree(forest, tree);

	for (size_t i = 0; i < set->n_dirs; i++) {
		const struct dataset_dir *dir = &set->dirs[forest->order.dirs[i]];

		if (dir->has_objects[tree->state] && !dir->has_sources[tree->state])
			make_dir(top, dir->name);
	}
	for (size_t i = 0; i < set->n_files; i++) {
		const struct dataset_file *file = &set->files[order[i]];

		if (!file->object || file->bytes[tree->state] < 0)
			continue;
		create_file(top, file->name, file->name, file->bytes[tree->state],
			    tree_contents_key(tree, order[i], tree->state));
		work.files++;
		work.bytes += (uint64_t)file->bytes[tree->state];
	}
	close_checked(top, tree_name(tree));
	tree->compiled = true;
	return work;
}

struct work tree_clean(const struct forest *forest, struct tree *tree)
{
	const struct dataset *set = forest->set;
	struct work work = { 0 };
	int top = open_tree(forest, tree);

	for (size_t i = 0; i < set->n_files; i++) {
		const struct dataset_file *file = &set->files[forest->order.files[i]];

		if (!file->object || file->bytes[tree->state] < 0)
			continue;
		remove_file(top, file->name);
		work.files++;
		work.bytes += (uint64_t)file->bytes[tree->state];
	}
	for (size_t i = set->n_dirs; i-- > 0;) {
		const struct dataset_dir *dir = &set->dirs[forest->order.dirs[i]];

		if (dir->has_objects[tree->state] && !dir->has_sources[tree->state])
			remove_dir(top, dir->name);
	}
	close_checked(top, tree_name(tree));
	tree->compiled = false;
	return work;
}

/* Files and bytes that the tree must hold after the operations so far. */
static struct work expected(const struct forest *forest, const struct tree *tree)
{
	struct work work = { 0 };

	for (size_t i = 0; i < forest->set->n_files; i++) {
		const struct dataset_file *file = &forest->set->files[i];

		if ((!file->object || tree->compiled) && file->bytes[tree->state] >= 0) {
			work.files++;
			work.bytes += (uint64_t)file->bytes[tree->state];
		}
	}
	return work;
}

void tree_expect(const struct forest *forest, const struct tree *tree, struct work held,
		 bool bytes_known)
{
	struct work expected_work = expected(forest, tree);

	if (held.files != expected_work.files || (bytes_known && held.bytes != expected_work.bytes))
		fail(EXIT_RUN_FAILED,
		     "%s holds %" PRIu64 " files of %" PRIu64 " bytes, not the %" PRIu64
		     " of %" PRIu64 " bytes written to it; run fsck",
		     tree_name(tree), held.files, held.bytes, expected_work.files,
		     expected_work.bytes);
}

static void read_file(void *context, int dir_fd, const char *name, const char *path)
{
	struct work *work = context;
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		fail_errno("cannot open", path);
	work->bytes += contents_read(fd, path);
	work->files++;
	close_checked(fd, path);
}

struct work tree_read(const struct forest *forest, struct tree *tree)
{
	struct work work = { 0 };
	struct walk walk = { .file = read_file, .context = &work };

	walk_tree(&walk, forest->fd, tree_name(tree));
	tree_expect(forest, tree, work, true);
	return work;
}

static void stat_file(void *context, int dir_fd, const char *name, const char *path)
{
	struct work *work = context;
	struct stat info;

	if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		fail_errno("cannot stat", path);
	work->bytes += (uint64_t)info.st_size;
	work->files++;
}

static void stat_dir(void *context, int dir_fd, const char *name, const char *path)
{
	struct stat info;

	(void)context;
	if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		fail_errno("cannot stat", path);
}

struct work tree_stat(const struct forest *forest, struct tree *tree)
{
	struct work work = { 0 };
	struct walk walk = { .enter_dir = stat_dir, .file = stat_file, .context = &work };

	walk_tree(&walk, forest->fd, tree_name(tree));
	tree_expect(forest, tree, work, true);
	work.bytes = 0; /* stat moves no file data */
	return work;
}

static void delete_file(void *context, int dir_fd, const char *name, const char *path)
{
	struct work *work = context;

	if (unlinkat(dir_fd, name, 0) != 0)
		fail_errno("cannot remove", path);
	work->files++;
}

static void delete_dir(void *context, int dir_fd, const char *name, const char *path)
{
	(void)context;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) != 0)
		fail_errno("cannot remove the directory", path);
}

struct work tree_delete(const struct forest *forest, struct tree *tree)
{
	struct work work = { 0 };
	struct walk walk = { .file = delete_file, .leave_dir = delete_dir, .context = &work };

	walk_tree(&walk, forest->fd, tree_name(tree));
	remove_dir(forest->fd, tree_name(tree));
	tree_expect(forest, tree, work, false);
	tree->exists = false;
	return work;
}
