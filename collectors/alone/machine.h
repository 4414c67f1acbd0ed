/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts of the kernel and the machine, as keys of run.json; a fact that can't be read is left out. */
#ifndef SEEKMETER_ALONE_MACHINE_H
#define SEEKMETER_ALONE_MACHINE_H

#include <stdio.h>

/* Writes "kernel":{…},"machine":{…}. */
void machine_write(FILE *out);

#endif
