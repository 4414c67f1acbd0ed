// SPDX-License-Identifier: BSD-2-Clause
// Runs for ever, half the time code of its own, half the time a copy of it in memory that belongs to no file.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef long function(long);

__attribute__((noinline)) static long spend(long rounds)
{
	while (--rounds > 0)
		__asm__ volatile("" : "+r"(rounds));
	return rounds;
}

int main(void)
{
	char *place = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memcpy(place, (const void *)spend, 128);
	__builtin___clear_cache(place, place + 4096);
	function *copy = (function *)place;
	for (;;) {
		spend(1000000);
		copy(1000000);
	}
}
