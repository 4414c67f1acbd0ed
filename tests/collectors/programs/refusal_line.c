// SPDX-License-Identifier: BSD-2-Clause
/* Tells refusal.c each file named in the arguments, as libbpf's warnings in turn, and prints the decisive line. */
#include "../../../collectors/recorder/refusal.c"

#include <stdlib.h>

int main(int argc, char **argv)
{
	static char warning[1 << 16];

	for (int i = 1; i < argc; i++) {
		FILE *in = fopen(argv[i], "r");

		if (!in) {
			perror(argv[i]);
			return 1;
		}
		warning[fread(warning, 1, sizeof(warning) - 1, in)] = 0;
		fclose(in);
		refusal_note(warning);
	}
	puts(refusal_line());
	refusal_forget();
	return refusal_line()[0] != 0;
}
