/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggers of the flight recorder: conditions that are looked at while the recorder records, such as a request in flight
 * for longer than a limit. A trigger fires when its condition begins to hold; what then happens is on_fire()'s matter.
 *
 *   --trigger SPEC[=SHOWN]   SPEC as below; SHOWN: the user's words, for display (default: SPEC)
 *
 *   request:NS               a request's time from queue to completion is NS or more: of one in flight (it has reached the
 *                            driver, and fires before it ends), and of each that has ended; the same of bios to volumes
 *   stall:NS                 a disk or volume has requests or bios in flight and has completed none for NS
 *   depth:N                  a disk has N requests in flight or more
 *   lock:NS                  a wait for a lock took NS or more; waits count when they end
 *   call:KIND:NS             a call of this kind of table `call`, or of `any` kind, took NS or more, when it has ended
 *   psi:RESOURCE:SHARE:STALL_US:WINDOW_US
 *                            tasks were stalled for STALL_US within WINDOW_US (/proc/pressure; io|memory|cpu, some|full)
 *   log:TEXT                 a new line of the kernel's log has TEXT in it, whatever the case; in TEXT, %25 is a % and %3D a =
 *   signal                   the recorder is sent SIGUSR2
 *
 * Each kind is a struct trigger_kind (trigger_kind.h) that registers itself; no list names them.
 */
#ifndef SEEKMETER_TRIGGERS_H
#define SEEKMETER_TRIGGERS_H

#include <stdbool.h>
#include <stdint.h>

/* The strings are valid during the call only. Texts from outside (names of processes, log lines) are in `detail`. */
struct firing {
	uint64_t ns;	     /* CLOCK_MONOTONIC at which it was noticed */
	const char *trigger; /* as shown */
	const char *kind;    /* the first word of SPEC */
	uint64_t
		value; /* ns; requests in flight; us of stall of psi, at least; 0 of log and signal */
	const char *detail;
};

/*
 * Called by triggers_tick() when a condition begins to hold. Without another one: prints {"fired":N,"ns":…,…} as one line
 * on stdout.
 */
extern void (*on_fire)(const struct firing *firing);

/* Adds a trigger while the command line is read. -1: it is wrong, and the error is printed. */
int triggers_add(const char *spec, const char *shown);
/* The same of an argument of --trigger. */
int triggers_add_option(const char *argument);
/* -1: a trigger needs a collector that is not among those wanted; the error is printed. */
int triggers_check(void);
/* All collectors are attached. -1: a trigger can't work on this machine; the error is printed. */
int triggers_start(void);
/* Called each DRAIN_MS, after the buffers were emptied; now_ns: the time before that. */
void triggers_tick(uint64_t now_ns);
/* Does any condition still hold? Each holds for TRIGGER_HOLD_NS more than it was seen: scans are not at each tick. */
bool triggers_present(void);
void triggers_close(void);

#endif
