/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The end of the recording, for programs that are attached longer than that: a link that another process has open, too, as
 * `bpftool link` has each for a moment, is not detached when the recorder closes it.
 */
#ifndef SEEKMETER_OVER_H
#define SEEKMETER_OVER_H

/* Set by the recorder when it has closed its links: from then on no program counts, or writes a record. */
volatile bool is_over;

#endif
