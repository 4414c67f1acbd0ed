/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints a packed table as one that is not packed. */
#ifndef SEEKMETER_REC_UNPACK_H
#define SEEKMETER_REC_UNPACK_H

/*
 * Prints the table (path "-": of standard input) to standard output, unpacked: its header with "SKMREC01", then all whole records. A torn last block
 * is left out. 0; or -1: the error is printed, and what came before the fault is on standard output.
 */
int rec_unpack(const char *path);

#endif
