// SPDX-License-Identifier: BSD-2-Clause
/*
 * remount: for workloads that are scripts. Unmounts the file system under test and mounts it again, so that nothing of
 * it is cached; see common/session/remount.h. The script leaves the directory first, and nothing in it may be open:
 *
 *   cd / && remount && cd "$SEEKMETER_DIR"
 *
 * Prints "remounted" or "not remounted: WHY" (a directory of the user's is never unmounted), exit status 0; or an
 * error, 1.
 */
#include <stdio.h>

#include "common/session/fail.h"
#include "common/session/remount.h"

int main(int argc, char **argv)
{
	const char *why;

	if (argc > 1)
		fail(EXIT_WRONG_WORDS, "remount: unknown word %s; it takes none", argv[1]);
	why = remount();
	if (why == NULL)
		puts("remounted");
	else
		printf("not remounted: %s\n", why);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "what was done");
	return 0;
}
