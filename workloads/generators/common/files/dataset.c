// SPDX-License-Identifier: BSD-2-Clause
/* Reads compilebench's dataset, lists of names and sizes of a kernel tree; see dataset.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "dataset.h"
#include "common/session/fail.h"

#define LINE_BYTES     4096 /* a name is at most PATH_MAX; ours are below 200 */
#define FILE_BYTES_MAX ((int64_t)1 << 40)
#define REMEDY	       "restore it with git checkout workloads/datasets"

struct table {
	const char *path;
	int line;
};

static void broken(const struct table *from, const char *why)
{
	fail(EXIT_RUN_FAILED, "dataset %s is broken at line %d: %s; " REMEDY, from->path,
	     from->line, why);
}

/* One size field: "-" is -1. Moves *at past the tab after it. */
static int64_t parse_bytes(const struct table *from, char **at)
{
	char *end;
	long long bytes;

	if (strncmp(*at, "-\t", 2) == 0) {
		*at += 2;
		return -1;
	}
	errno = 0;
	bytes = strtoll(*at, &end, 10);
	if (end == *at || *end != '\t' || errno != 0 || bytes < 0 || bytes > FILE_BYTES_MAX)
		broken(from, "a size is not a number of bytes or -");
	*at = end + 1;
	return bytes;
}

/* A name must stay inside the tree: relative, without empty, "." and ".." components. */
static bool safe_name(const char *name)
{
	while (true) {
		size_t length = strcspn(name, "/");

		if (length == 0 || (length == 1 && name[0] == '.') ||
		    (length == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		if (name[length] == '\0')
			return true;
		name += length + 1;
	}
}

static struct dataset_file parse_line(const struct table *from, char *line, bool object)
{
	struct dataset_file file = { .object = object };
	char *at = line;

	file.bytes[UNPATCHED] = parse_bytes(from, &at);
	file.bytes[PATCHED] = parse_bytes(from, &at);
	if ((at[0] != '0' && at[0] != '1') || at[1] != '\t')
		broken(from, "the third field is not 0 or 1");
	file.changed = at[0] == '1';
	at += 2;
	if (!safe_name(at))
		broken(from, "the name is not a path inside the tree");
	file.name = must_alloc(strdup(at));
	return file;
}

static void load_table(struct dataset *set, const char *directory, const char *name, bool object)
{
	char path[LINE_BYTES];
	char line[LINE_BYTES];
	struct table from = { .path = path };
	size_t room = set->n_files;
	size_t before = set->n_files;
	const char *gz_message;
	gzFile in;
	int error;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
		fail(EXIT_WRONG_WORDS,
		     "the dataset directory's name is too long; give a shorter one");
	in = gzopen(path, "rb");
	if (in == NULL)
		fail(EXIT_RUN_FAILED, "dataset %s cannot be opened (%s); " REMEDY, path,
		     strerror(errno));
	while (gzgets(in, line, sizeof(line)) != NULL) {
		size_t length = strlen(line);

		from.line++;
		if (length == 0 || line[length - 1] != '\n')
			broken(&from, "the line has no end");
		line[length - 1] = '\0';
		if (line[0] == '#')
			continue;
		if (set->n_files == room) {
			room = room * 2 + 1024;
			set->files = must_alloc(realloc(set->files, room * sizeof(*set->files)));
		}
		set->files[set->n_files++] = parse_line(&from, line, object);
	}
	gz_message = gzerror(in, &error);
	if (error != Z_OK && error != Z_STREAM_END)
		broken(&from, gz_message);
	/* gzgets() reads a truncated file without an error; gzclose() reports the truncation */
	if (gzclose(in) != Z_OK)
		broken(&from, "the compressed data ends early");
	if (set->n_files == before)
		broken(&from, "there is no file in it");
}

static int by_file_name(const void *a, const void *b)
{
	return strcmp(((const struct dataset_file *)a)->name,
		      ((const struct dataset_file *)b)->name);
}

static int by_dir_name(const void *a, const void *b)
{
	return strcmp(((const struct dataset_dir *)a)->name, ((const struct dataset_dir *)b)->name);
}

/* Collects each directory of the files' paths once. */
static void collect_dirs(struct dataset *set)
{
	size_t room = 0;
	size_t n = 0;

	for (size_t i = 0; i < set->n_files; i++) {
		const char *name = set->files[i].name;
		const char *previous = i > 0 ? set->files[i - 1].name : "";

		for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
			size_t length = (size_t)(slash - name);

			/* names are sorted, so most duplicates are neighbours; the others are removed below */
			if (strncmp(name, previous, length + 1) == 0)
				continue;
			if (n == room) {
				room = room * 2 + 256;
				set->dirs =
					must_alloc(realloc(set->dirs, room * sizeof(*set->dirs)));
			}
			set->dirs[n++] = (struct dataset_dir){
				.name = must_alloc(strndup(name, length)),
			};
		}
	}
	if (n > 0)
		qsort(set->dirs, n, sizeof(*set->dirs), by_dir_name);
	for (size_t i = 0; i < n; i++) {
		if (set->n_dirs == 0 ||
		    strcmp(set->dirs[set->n_dirs - 1].name, set->dirs[i].name) != 0)
			set->dirs[set->n_dirs++] = set->dirs[i];
		else
			free((char *)set->dirs[i].name);
	}
}

/* Fill in each file's directory, and which directories the files of each kind and state need. */
static void link_dirs(struct dataset *set)
{
	char path[LINE_BYTES];

	for (size_t i = 0; i < set->n_files; i++) {
		struct dataset_file *file = &set->files[i];
		char *slash;

		snprintf(path, sizeof(path), "%s", file->name);
		while ((slash = strrchr(path, '/')) != NULL) {
			size_t index;
			struct dataset_dir *dir;

			*slash = '\0';
			index = dataset_find_dir(set, path);
			dir = &set->dirs[index];
			if (file->dir == 0)
				file->dir = (uint32_t)index + 1;
			for (int state = 0; state < STATES; state++) {
				bool there = file->bytes[state] >= 0;

				dir->has_sources[state] |= there && !file->object;
				dir->has_objects[state] |= there && file->object;
			}
		}
	}
}

struct dataset dataset_load(const char *directory)
{
	struct dataset set = { 0 };

	load_table(&set, directory, "linux-tree-sources.tsv.gz", false);
	load_table(&set, directory, "linux-tree-objects.tsv.gz", true);
	qsort(set.files, set.n_files, sizeof(*set.files), by_file_name);
	for (size_t i = 1; i < set.n_files; i++)
		if (strcmp(set.files[i - 1].name, set.files[i].name) == 0)
			fail(EXIT_RUN_FAILED,
			     "dataset in %s is broken: %s is listed twice; " REMEDY, directory,
			     set.files[i].name);
	collect_dirs(&set);
	link_dirs(&set);
	return set;
}

void dataset_free(struct dataset *set)
{
	for (size_t i = 0; i < set->n_files; i++)
		free((char *)set->files[i].name); /* const for all others */
	for (size_t i = 0; i < set->n_dirs; i++)
		free((char *)set->dirs[i].name);
	free(set->files);
	free(set->dirs);
}

size_t dataset_find_file(const struct dataset *set, const char *name)
{
	struct dataset_file key = { .name = name };
	struct dataset_file *file =
		bsearch(&key, set->files, set->n_files, sizeof(*set->files), by_file_name);

	if (file == NULL)
		fail(EXIT_RUN_FAILED, "%s: unknown file in the tree; give an empty directory (-D)",
		     name);
	return (size_t)(file - set->files);
}

size_t dataset_find_dir(const struct dataset *set, const char *name)
{
	struct dataset_dir key = { .name = name };
	struct dataset_dir *dir =
		bsearch(&key, set->dirs, set->n_dirs, sizeof(*set->dirs), by_dir_name);

	if (dir == NULL)
		fail(EXIT_RUN_FAILED,
		     "%s: unknown directory in the tree; give an empty directory (-D)", name);
	return (size_t)(dir - set->dirs);
}
