// SPDX-License-Identifier: BSD-2-Clause
/* How long something is held: so many ms, or with 0 until the test says so, by SIGUSR1. */
#ifndef TESTS_HOLD_H
#define TESTS_HOLD_H

#include <signal.h>
#include <unistd.h>

/* Before the first thread: the signal waits until hold() asks for it, and interrupts nobody's call. */
static void hold_signal(sigset_t *told)
{
	sigemptyset(told);
	sigaddset(told, SIGUSR1);
	sigprocmask(SIG_BLOCK, told, NULL);
}

static void hold_for(int hold_ms, const sigset_t *told)
{
	int number;

	if (hold_ms)
		usleep(hold_ms * 1000);
	else
		sigwait(told, &number);
}

#endif
