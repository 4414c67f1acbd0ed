/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Size of the map of followed processes (followed.bpf.c). */
#ifndef SEEKMETER_FOLLOWED_RECORDS_H
#define SEEKMETER_FOLLOWED_RECORDS_H

#define FOLLOWED_PROCESSES 65536

#endif
