// SPDX-License-Identifier: BSD-2-Clause
/* Makes 32-bit system calls (int 0x80, getpid) from a 64-bit x86 program: compat_calls COUNT. */
#include <stdlib.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;

	while (count--) {
		int result = 20; /* getpid, in the 32-bit table; in the 64-bit one it is writev */

		__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
		if (result <= 0)
			return 1;
	}
	return 0;
}
