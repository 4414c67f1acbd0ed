/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the kernel refused a BPF program or map: the decisive line among libbpf's warnings.
 */
#ifndef SEEKMETER_REFUSAL_H
#define SEEKMETER_REFUSAL_H

/* Notes a warning of libbpf. The verifier's log is one warning of many lines. */
void refusal_note(const char *warning);
/* The program or map and what is wrong with it, in one line; "": there was no warning. */
const char *refusal_line(void);
/* Forgets the warnings so far: before another collector is opened, and after a trial. */
void refusal_forget(void);

#endif
