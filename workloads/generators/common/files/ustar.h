// SPDX-License-Identifier: BSD-2-Clause
/* Parts of a tar archive: headers and sizes in the ustar format of POSIX. A path given to these is for messages. */
#ifndef GENERATORS_USTAR_H
#define GENERATORS_USTAR_H

#include <stddef.h>
#include <stdint.h>

#define USTAR_BLOCK	 512
#define USTAR_RECORD	 (20 * USTAR_BLOCK) /* an archive's length is a multiple of this */
#define USTAR_END_BLOCKS 2		    /* blocks of zeros at the end of an archive */

enum ustar_type { USTAR_FILE = '0', USTAR_DIRECTORY = '5' };

/* Bytes in an archive for a file of BYTES bytes: the header, and the contents in whole blocks. */
uint64_t ustar_file_bytes(uint64_t bytes);
/* Bytes of the directories' headers and of the end blocks, without the padding to a whole record. */
uint64_t ustar_overhead_bytes(uint64_t directories);

/* Writes all of the data. */
void ustar_put(int fd, const void *data, size_t bytes, const char *path);
void ustar_put_header(int fd, const char *name, enum ustar_type type, uint64_t bytes,
		      const char *path);

#endif
