// SPDX-License-Identifier: BSD-2-Clause
/* Parts of a tar archive: headers and sizes in the ustar format of POSIX (pax(1p), "ustar Interchange Format"). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "ustar.h"

#define MTIME 1083369600 /* the same in every archive: 1 May 2004 */

struct header {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char chksum[8];
	char typeflag;
	char linkname[100];
	char magic[6];
	char version[2];
	char rest[247];
};

_Static_assert(sizeof(struct header) == USTAR_BLOCK, "a header is a block");

uint64_t ustar_file_bytes(uint64_t bytes)
{
	return USTAR_BLOCK + (bytes + USTAR_BLOCK - 1) / USTAR_BLOCK * USTAR_BLOCK;
}

uint64_t ustar_overhead_bytes(uint64_t directories)
{
	return (directories + USTAR_END_BLOCKS) * USTAR_BLOCK;
}

void ustar_put(int fd, const void *data, size_t bytes, const char *path)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t done = write(fd, at, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			fail_errno("cannot write", path);
		at += done;
		bytes -= (size_t)done;
	}
}

void ustar_put_header(int fd, const char *name, enum ustar_type type, uint64_t bytes,
		      const char *path)
{
	struct header header = { .typeflag = type, .magic = "ustar", .version = { '0', '0' } };
	unsigned int sum = 0;

	snprintf(header.name, sizeof(header.name), "%s", name);
	snprintf(header.mode, sizeof(header.mode), "%07o", type == USTAR_DIRECTORY ? 0755 : 0644);
	snprintf(header.uid, sizeof(header.uid), "%07o", 0);
	snprintf(header.gid, sizeof(header.gid), "%07o", 0);
	snprintf(header.size, sizeof(header.size), "%011" PRIo64, bytes);
	snprintf(header.mtime, sizeof(header.mtime), "%011o", MTIME);
	memset(header.chksum, ' ', sizeof(header.chksum));
	for (size_t i = 0; i < sizeof(header); i++)
		sum += ((unsigned char *)&header)[i];
	snprintf(header.chksum, sizeof(header.chksum), "%06o", sum);
	ustar_put(fd, &header, sizeof(header), path);
}
