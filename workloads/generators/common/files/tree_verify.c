// SPDX-License-Identifier: BSD-2-Clause
/* tree_verify(): compares the files of a tree with what was written; see tree.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contents.h"
#include "common/session/fail.h"
#include "tree.h"
#include "walk.h"

/* Contents are read of one file in READ_ONE_IN, other files in each tree. On a hard disk, reading all takes hours. */
#define READ_ONE_IN 64

struct audit {
	const struct forest *forest;
	const struct tree *tree;
	struct work verified;
	uint64_t bytes; /* sizes of all files, read or not */
};

/* The state whose contents a file has: a file that the patch does not change has its first contents. */
static int written_in(const struct dataset_file *file, const struct tree *tree)
{
	return file->object || file->changed ? tree->state : UNPATCHED;
}

static void audit_file(void *context, int dir_fd, const char *name, const char *path)
{
	struct audit *audit = context;
	const struct tree *tree = audit->tree;
	size_t index = dataset_find_file(audit->forest->set, path);
	const struct dataset_file *file = &audit->forest->set->files[index];
	int64_t expected_bytes = file->object && !tree->compiled ? -1 : file->bytes[tree->state];
	struct stat info;
	int fd;

	if (fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		fail_errno("cannot stat what was written", path);
	if (expected_bytes < 0)
		fail(EXIT_RUN_FAILED, "%s/%s: exists, and must not; run fsck", tree_name(tree),
		     path);
	if (info.st_size != expected_bytes || !S_ISREG(info.st_mode))
		fail(EXIT_RUN_FAILED, "%s/%s: has %lld bytes where %lld were written; run fsck",
		     tree_name(tree), path, (long long)info.st_size, (long long)expected_bytes);
	audit->verified.files++;
	audit->bytes += (uint64_t)expected_bytes;
	if ((index + tree->number) % READ_ONE_IN != 0)
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		fail_errno("cannot open what was written", path);
	if (!contents_same(fd, (uint64_t)expected_bytes,
			   tree_contents_key(tree, index, written_in(file, tree)), path))
		fail(EXIT_RUN_FAILED, "%s/%s: is not what was written; run fsck", tree_name(tree),
		     path);
	if (close(fd) != 0)
		fail_errno("cannot close", path);
	audit->verified.bytes += (uint64_t)expected_bytes;
}

struct work tree_verify(const struct forest *forest, const struct tree *tree)
{
	struct audit audit = { .forest = forest, .tree = tree };
	const struct walk walk = { .file = audit_file, .context = &audit };

	walk_tree(&walk, forest->fd, tree_name(tree));
	tree_expect(forest, tree, (struct work){ audit.verified.files, audit.bytes }, true);
	return audit.verified;
}
