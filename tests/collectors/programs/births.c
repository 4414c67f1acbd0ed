// SPDX-License-Identifier: BSD-2-Clause
/* births COUNT: so many threads, one after the other. */
#include <pthread.h>
#include <stdlib.h>

static void *live(void *nothing)
{
	return nothing;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int left = argc > 1 ? atoi(argv[1]) : 0; left; left--)
		if (pthread_create(&thread, NULL, live, NULL) || pthread_join(thread, NULL))
			return 1;
	return 0;
}
