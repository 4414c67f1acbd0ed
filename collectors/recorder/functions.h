/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel functions by number, each written once into function.jsonl: {"id":1,"name":"wb_workfn"}. Records hold the numbers:
 * an address tells where the kernel lies.
 */
#ifndef SEEKMETER_FUNCTIONS_H
#define SEEKMETER_FUNCTIONS_H

#include <stdint.h>

struct options;

/* Creates function.jsonl; 0, or -1 with errno. */
int functions_open(const struct options *options);
/*
 * The number of the function that begins at this address: 1, 2…, in order of first use. 0: the address is 0, or there is no
 * memory. Names are looked up later (functions_flush()), so this is quick.
 */
uint32_t functions_note(uint64_t address);
/* The same by the low half of the address: kernel and modules lie within 2 GiB. */
uint32_t functions_note_low(uint32_t low);
/* How many have been noted. */
uint32_t functions_count(void);
/*
 * Writes the functions noted since the last call. Suffixes of the compiler's copies (.isra.0, .constprop.0, .part.0) are
 * cut off, so two numbers may have one name. A function that the kernel does not list is "[unknown]".
 */
void functions_flush(void);
void functions_close(void);

#endif
