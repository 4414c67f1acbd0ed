// SPDX-License-Identifier: BSD-2-Clause
/*
 * remount: cold caches for workloads that are scripts. The program unmounts the file system under test and mounts it
 * again; see common/session/remount.h. The script first leaves the directory; no file there may be open:
 *
 *   cd / && remount && cd "$SEEKMETER_DIR"
 *
 * Prints "remounted" or "not remounted: WHY", exit status 0 (a directory that the user named is never unmounted); or an
 * error, exit status 1.
 */
#include <stdio.h>

#include "common/session/fail.h"
#include "common/session/remount.h"

int main(int argc, char **argv)
{
	const char *why;

	if (argc > 1)
		fail(EXIT_WRONG_WORDS, "remount: unknown option %s; give none", argv[1]);
	why = remount();
	if (why == NULL)
		puts("remounted");
	else
		printf("not remounted: %s\n", why);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "what was done");
	return 0;
}
