// SPDX-License-Identifier: BSD-2-Clause
/* A new file in the output directory. */
#include "recorder.h"

#include <fcntl.h>
#include <unistd.h>

int new_file(int dir_fd, const char *name)
{
	/* A source that could not start may have left one; whatever else has this name is not ours to write to. */
	unlinkat(dir_fd, name, 0);
	return openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
}
