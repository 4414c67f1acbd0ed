// SPDX-License-Identifier: BSD-2-Clause
/* The trigger `signal`: the recorder is sent SIGUSR2. */
#include <signal.h>

#include "trigger_kind.h"

static volatile sig_atomic_t sent;

static void on_signal(int number)
{
	(void)number;
	sent = 1;
}

static bool parse(struct trigger *trigger, char *rest)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	(void)trigger;
	/* At once: a signal while the collectors are being attached would end the process. */
	return !*rest && !sigaction(SIGUSR2, &action, NULL);
}

static void tick(struct trigger *trigger, uint64_t now_ns)
{
	static uint64_t sent_ns;

	if (sent) {
		sent = 0;
		sent_ns = now_ns;
	}
	/* Each trigger of this kind sees the signal, in the same tick. */
	if (sent_ns == now_ns)
		trigger_report(trigger, 0, "the recorder was sent SIGUSR2");
}

static const struct trigger_kind signal_kind = {
	.name = "signal", .syntax = "signal", .parse = parse, .tick = tick
};

REGISTER_TRIGGER(signal_kind)
