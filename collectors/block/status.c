// SPDX-License-Identifier: BSD-2-Clause
/* The kernel's status of a request or bio, as an errno. */
#include "status.h"

#include <errno.h>

/* block/blk-core.c, blk_errors[]: the number is blk_status_t, which is no ABI but has only grown since 4.13. */
static const int blk_errnos[] = {
	[1] = EOPNOTSUPP, [2] = ETIMEDOUT, [3] = ENOSPC,  [4] = ENOLINK,
	[5] = EREMOTEIO,  [6] = EBADE,	   [7] = ENODATA, [8] = EILSEQ,
	[9] = ENOMEM,	  [10] = EIO,	   [11] = EBUSY,  [12] = EAGAIN,
};

int errno_of_status(int status)
{
	if (status < 0)
		return -status;
	if (status > 0 && status < (int)(sizeof(blk_errnos) / sizeof(blk_errnos[0])) &&
	    blk_errnos[status])
		return blk_errnos[status];
	return status ? EIO : 0;
}
