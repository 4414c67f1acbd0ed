/* SPDX-License-Identifier: BSD-2-Clause */
/* An error on stderr. Apart from options.c, as disks.c says errors too and options.c uses disks.c. */
#ifndef SEEKMETER_FAIL_H
#define SEEKMETER_FAIL_H

/* Prints "recorder: SUBJECT: PROBLEM"; returns -1. */
int fail(const char *subject, const char *problem);

#endif
