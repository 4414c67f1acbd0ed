// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the recorder's table of lock functions, one a line: "family BEGIN" or "spinning NAME KIND". Then the names from
 * standard input that the table holds: "is NAME".
 */
#include "locks/names/lock_functions.c"

#include <stdio.h>

int main(void)
{
	char name[512];

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		printf("family %s\n", families[i].begin);
	for (size_t i = 0; i < sizeof(spinning) / sizeof(spinning[0]); i++)
		printf("spinning %s %d\n", spinning[i].name, spinning[i].kind);
	while (scanf("%511s", name) == 1)
		if (is_lock_function(name) || spin_kind_of(name) >= 0)
			printf("is %s\n", name);
	return 0;
}
