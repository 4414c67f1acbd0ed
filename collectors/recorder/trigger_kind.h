/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One kind of trigger, as the recorder's core or a collector defines it, and how it reports that its condition holds.
 *
 * A kind registers itself by REGISTER_TRIGGER. It looks at its condition in tick(), or where its collector takes rows in,
 * and calls trigger_report() as long as the condition holds; the core finds out when it begins to.
 */
#ifndef SEEKMETER_TRIGGER_KIND_H
#define SEEKMETER_TRIGGER_KIND_H

#include <stdbool.h>
#include <stdint.h>

#define TRIGGER_TEXT	256
#define TRIGGER_HOLD_NS 250000000ULL

struct trigger_kind;

struct trigger {
	const struct trigger_kind *kind;
	char shown[TRIGGER_TEXT];
	uint64_t limit; /* in the kind's unit */
	/* The kind's own. */
	uint64_t window_us;
	int number;
	int fd;
	char text[TRIGGER_TEXT];
	/* The core's: what was reported since the last tick, and when the condition was last seen. */
	bool reported, holds;
	uint64_t value, seen_ns;
	uint64_t hold_ns; /* the condition is looked at this often, at least */
	char detail[TRIGGER_TEXT];
};

struct trigger_kind {
	const char *name;   /* the first word of SPEC */
	const char *syntax; /* the whole SPEC, for error messages */
	const char *needs;  /* name of the collector that must be on; NULL: none */
	/* Reads what follows NAME: in SPEC ("" if nothing does) into trigger->limit etc. False: it is wrong. */
	bool (*parse)(struct trigger *trigger, char *rest);
	/* Before the first tick. -1: the error is printed. NULL: nothing to do. */
	int (*start)(struct trigger *trigger);
	/* Looks at the condition. NULL: the collector's rows tell. */
	void (*tick)(struct trigger *trigger, uint64_t now_ns);
};

void trigger_register(const struct trigger_kind *kind);

/* Several may stand in a file. */
#define REGISTER_TRIGGER(kind)                                         \
	__attribute__((constructor)) static void register_##kind(void) \
	{                                                              \
		trigger_register(&(kind));                             \
	}

/* The i-th trigger of the command line that is of this kind, from 0; NULL: there are no more. */
struct trigger *trigger_of(const struct trigger_kind *kind, int i);

#define for_each_trigger(trigger, kind) \
	for (int at_ = 0; ((trigger) = trigger_of((kind), at_)); at_++)

/* The lowest limit of the kind's triggers; UINT64_MAX: there is none. */
uint64_t trigger_lowest(const struct trigger_kind *kind);

/* The condition holds now, with this value. The text of the largest value since the last tick is kept. */
void trigger_report(struct trigger *trigger, uint64_t value, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Parses a number above 0 up to `end`, a character or 0; *text then points behind it. */
bool trigger_number(char **text, char end, uint64_t *number);

/* The parse() of kinds with one number. */
bool trigger_parse_limit(struct trigger *trigger, char *rest);

#endif
