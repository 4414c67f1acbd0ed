/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What did the kernel refuse, and why? The decisive line of all that libbpf says when programs can't be loaded or attached.
 */
#ifndef SEEKMETER_REFUSAL_H
#define SEEKMETER_REFUSAL_H

/* One of libbpf's warnings; the verifier's log is one of many lines. */
void refusal_note(const char *warning);
/* The program or map and what was wrong with it, as one line; "": nothing was said. */
const char *refusal_line(void);
void refusal_forget(void);

#endif
