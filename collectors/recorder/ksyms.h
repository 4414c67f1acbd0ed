/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's symbols, from /proc/kallsyms, read once at the first call. */
#ifndef SEEKMETER_KSYMS_H
#define SEEKMETER_KSYMS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads the symbols (some 200,000 lines, 0.1 s), unless they are read already. False: the kernel shows none
 * (kernel.kptr_restrict).
 */
bool ksyms_load(void);
/* The symbol that a kernel address lies in, and its *offset in it; NULL: not known. */
const char *ksyms_symbol(uint64_t address, uint64_t *offset);
/* The address of a symbol; 0: not listed. */
uint64_t ksyms_address(const char *name);
/* Calls `each` for every function; a function ends where the next symbol begins. */
void ksyms_each_function(void (*each)(const char *name, uint64_t begin, uint64_t end));
void ksyms_unload(void);

#endif
