// SPDX-License-Identifier: BSD-2-Clause
/* Where a file begins on disk, by FIEMAP; see file_offset.h. */
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "file_offset.h"

bool file_offset_on_disk(int fd, uint64_t *offset)
{
	struct {
		struct fiemap head;
		struct fiemap_extent extent;
	} map = { .head = { .fm_length = FIEMAP_MAX_OFFSET, .fm_extent_count = 1 } };

	if (ioctl(fd, FS_IOC_FIEMAP, &map) != 0 || map.head.fm_mapped_extents < 1 ||
	    map.extent.fe_flags &
		    (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE))
		return false;
	*offset = map.extent.fe_physical;
	return true;
}
