// SPDX-License-Identifier: BSD-2-Clause
/* The check of promises: see check.h. It goes on after what it cannot open or read: that is a finding. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "promises/check.h"
#include "promises/sectors.h"

#define SHOWN_MOST 10
#define TEXT_BYTES 160
#define DEPTH_MOST 8

struct verdict {
	struct ledger *ledger;
	uint64_t kept;
	uint64_t broken;
	uint64_t nameless; /* synced files that are gone, whose name was never promised */
	char shown[SHOWN_MOST][TEXT_BYTES];
};

__attribute__((format(printf, 2, 3))) static void broken(struct verdict *verdict,
							 const char *format, ...)
{
	va_list arguments;

	if (verdict->broken < SHOWN_MOST) {
		va_start(arguments, format);
		vsnprintf(verdict->shown[verdict->broken], TEXT_BYTES, format, arguments);
		va_end(arguments);
	}
	verdict->broken++;
}

/* Reads a file whole. NULL: broken() has the reason. */
static char *read_whole(struct verdict *verdict, int fd, const char *path, size_t *bytes)
{
	struct stat status;
	char *text;
	ssize_t got;

	*bytes = 0;
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		broken(verdict, "%s is not a regular file", path);
		return NULL;
	}
	text = must_alloc(malloc((size_t)status.st_size + 1));
	while (*bytes < (size_t)status.st_size) {
		got = pread(fd, text + *bytes, (size_t)status.st_size - *bytes, (off_t)*bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			broken(verdict, "%s cannot be read at byte %zu: %s", path, *bytes,
			       got < 0 ? strerror(errno) : "it ends");
			free(text);
			return NULL;
		}
		*bytes += (size_t)got;
	}
	return text;
}

/* Returns the number of the file whose sectors these are; 0: none is whole. */
static uint64_t identify(const struct ledger *ledger, const char *text, size_t bytes)
{
	struct sector_id id;

	for (size_t at = 0; at + SECTOR_BYTES <= bytes; at += SECTOR_BYTES)
		if (sector_read(text + at, ledger->seed, &id))
			return id.file;
	return 0;
}

/* Returns whether the contents are at least the version that was promised. */
static bool has_promised(struct verdict *verdict, const char *path, uint64_t number,
			 const struct told_file *file, const char *text, size_t bytes)
{
	uint32_t sectors = file->sectors * (file->is_appended ? file->synced : 1);

	if (file->synced == 0)
		return true;
	if (bytes < (size_t)sectors * SECTOR_BYTES) {
		broken(verdict, "%s has %zu bytes, and %zu were synced (file %" PRIu64 ")", path,
		       bytes, (size_t)sectors * SECTOR_BYTES, number);
		return false;
	}
	for (uint32_t i = 0; i < sectors; i++) {
		uint32_t least = file->is_appended ? i / file->sectors + 1 : file->synced;
		uint32_t most = file->is_appended ? least : file->written;
		struct sector_id id;

		if (!sector_read(text + (size_t)i * SECTOR_BYTES, verdict->ledger->seed, &id) ||
		    id.file != number || id.sector != i) {
			broken(verdict,
			       "%s: sector %" PRIu32 " is not what was synced (file %" PRIu64 ")",
			       path, i, number);
			return false;
		}
		if (id.version < least || id.version > most) {
			broken(verdict,
			       "%s: sector %" PRIu32 " has version %" PRIu32
			       ", and version %" PRIu32 " was synced (file %" PRIu64 ")",
			       path, i, id.version, least, number);
			return false;
		}
	}
	return true;
}

static bool may_be_unsynced(struct ledger *ledger, const struct told_name *name)
{
	for (size_t i = 0; i < name->count; i++) {
		struct told_file *file = ledger_file(ledger, name->holders[i].file);

		/* a file whose first write had not begun is not in the ledger */
		if (name->holders[i].file != 0 && (file == NULL || file->synced == 0))
			return true;
	}
	return false;
}

static void check_present(struct verdict *verdict, const struct told_name *name, const char *path,
			  int fd)
{
	struct told_file *file;
	uint64_t number;
	size_t bytes;
	char *text = read_whole(verdict, fd, path, &bytes);

	if (text == NULL)
		return;
	number = identify(verdict->ledger, text, bytes);
	file = ledger_file(verdict->ledger, number);
	if (file == NULL && may_be_unsynced(verdict->ledger, name)) {
		free(text);
		return;
	}
	if (file != NULL)
		file->found++;
	if (ledger_may_hold(name, number) && number != 0) {
		if (file != NULL && has_promised(verdict, path, number, file, text, bytes))
			verdict->kept += file->synced > 0;
	} else if (!name->is_touched) {
		broken(verdict, "%s is there, and was never made", path);
	} else if (name->count == 1 && name->holders[0].file == 0) {
		broken(verdict, "%s is there again, and its removal was synced (file %" PRIu64 ")",
		       path, number);
	} else {
		broken(verdict,
		       "%s holds file %" PRIu64 ", and not file %" PRIu64 " or a later one", path,
		       number, name->holders[0].file);
	}
	free(text);
}

static void check_name(struct verdict *verdict, int dir, uint32_t number)
{
	const struct told_name *name = &verdict->ledger->names[number];
	char entry[16], path[NAME_BYTES];
	int fd;

	snprintf(entry, sizeof(entry), "f%02u", number % SLOTS_PER_DIR);
	name_path(path, number);
	fd = openat(dir, entry, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		check_present(verdict, name, path, fd);
		close(fd);
	} else if (errno != ENOENT) {
		broken(verdict, "%s cannot be opened: %s", path, strerror(errno));
	} else if (!ledger_may_hold(name, 0)) {
		struct told_file *file = ledger_file(verdict->ledger, name->holders[0].file);

		broken(verdict, "%s is gone, and its directory was synced (file %" PRIu64 ")", path,
		       name->holders[0].file);
		if (file != NULL)
			file->is_ended = true; /* reported once */
	} else if (name->is_touched && name->count == 1) {
		verdict->kept++;
	}
}

/* A directory has only entries of its names: replay must not make others. */
static void check_entries(struct verdict *verdict, int dir, const char *path)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;
	unsigned int slot;
	char rest;

	if (stream == NULL) {
		broken(verdict, "%s cannot be read: %s", path, strerror(errno));
		if (copy >= 0)
			close(copy);
		return;
	}
	for (errno = 0; (entry = readdir(stream)) != NULL; errno = 0)
		if (entry->d_name[0] != '.' &&
		    (sscanf(entry->d_name, "f%2u%c", &slot, &rest) != 1 || slot >= SLOTS_PER_DIR))
			broken(verdict, "%s has an entry that was never made", path);
	if (errno != 0)
		broken(verdict, "%s cannot be read: %s", path, strerror(errno));
	closedir(stream);
}

static void check_files(struct verdict *verdict)
{
	for (uint64_t number = 1; number < verdict->ledger->file_count; number++) {
		const struct told_file *file = &verdict->ledger->files[number];

		if (file->synced == 0)
			continue;
		if (file->found > 1)
			broken(verdict,
			       "file %" PRIu64 " of t%02" PRIu32 " is there under %" PRIu32
			       " names, after a rename",
			       number, file->thread, file->found);
		if (file->found == 0 && file->is_settled && !file->is_ended)
			broken(verdict,
			       "file %" PRIu64 " of t%02" PRIu32 " is gone, after a rename", number,
			       file->thread);
		if (file->found == 0 && !file->is_settled && !file->is_ended)
			verdict->nameless++;
	}
}

/* Removes what is below DIR, and reports what cannot be removed. DIR is closed. */
static void remove_below(struct verdict *verdict, int dir, const char *path, int depth)
{
	DIR *stream = fdopendir(dir);
	const struct dirent *entry;

	if (stream == NULL) {
		broken(verdict, "%s cannot be read: %s", path, strerror(errno));
		close(dir);
		return;
	}
	while ((entry = readdir(stream)) != NULL) {
		const char *name = entry->d_name;
		char inner[TEXT_BYTES];
		int fd;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    unlinkat(dirfd(stream), name, 0) == 0)
			continue;
		snprintf(inner, sizeof(inner), "%.80s/%.60s", path, name);
		fd = openat(dirfd(stream), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && depth < DEPTH_MOST)
			remove_below(verdict, fd, inner, depth + 1);
		else if (fd >= 0)
			close(fd);
		if (unlinkat(dirfd(stream), name, AT_REMOVEDIR) != 0)
			broken(verdict, "%s cannot be removed: %s", inner, strerror(errno));
	}
	closedir(stream);
}

static void print_verdict(const struct verdict *verdict)
{
	const struct ledger *ledger = verdict->ledger;

	printf("{\"told\":%" PRIu64 ",\"told_syncs\":%" PRIu64 ",\"told_directory_syncs\":%" PRIu64
	       ",\"told_after_cut\":%" PRIu64 ",\"kept\":%" PRIu64 ",\"broken_count\":%" PRIu64
	       ",\"nameless\":%" PRIu64 ",\"broken\":[",
	       ledger->told_syncs + ledger->told_settles, ledger->told_syncs, ledger->told_settles,
	       ledger->told_late, verdict->kept, verdict->broken, verdict->nameless);
	for (uint64_t i = 0; i < verdict->broken && i < SHOWN_MOST; i++) {
		printf("%s\"", i > 0 ? "," : "");
		for (const char *at = verdict->shown[i]; *at != '\0'; at++) /* names are foreign */
			putchar(*at < ' ' || *at > '~' || *at == '"' || *at == '\\' ? '?' : *at);
		putchar('"');
	}
	printf("]}\n");
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the verdict");
}

bool check_promises(int dir_fd, struct ledger *ledger, bool remove)
{
	struct verdict *verdict = must_alloc(calloc(1, sizeof(*verdict)));
	int top = openat(dir_fd, TOP, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool is_kept;

	verdict->ledger = ledger;
	if (top < 0 && ledger->threads > 0)
		broken(verdict, "the directory " TOP " cannot be opened: %s", strerror(errno));
	for (uint32_t i = 0; top >= 0 && i < ledger->threads * DIRS_PER_THREAD; i++) {
		char path[NAME_BYTES];
		int dir;

		dir_path(path, i);
		dir = openat(top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir < 0) {
			broken(verdict, "%s cannot be opened: %s", path, strerror(errno));
			continue;
		}
		check_entries(verdict, dir, path);
		for (uint32_t slot = 0; slot < SLOTS_PER_DIR; slot++)
			check_name(verdict, dir, i * SLOTS_PER_DIR + slot);
		close(dir);
	}
	if (top >= 0)
		check_files(verdict);
	if (top >= 0 && remove) {
		remove_below(verdict, top, TOP, 0);
		if (unlinkat(dir_fd, TOP, AT_REMOVEDIR) != 0)
			broken(verdict, TOP " cannot be removed: %s", strerror(errno));
	} else if (top >= 0) {
		close(top);
	}
	print_verdict(verdict);
	is_kept = verdict->broken == 0;
	free(verdict);
	return is_kept;
}
