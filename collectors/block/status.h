/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's status of a request or bio, as an errno. */
#ifndef SEEKMETER_BLOCK_STATUS_H
#define SEEKMETER_BLOCK_STATUS_H

/* status: blk_status_t, or -errno on some kernels. 0: no error. */
int errno_of_status(int status);

#endif
