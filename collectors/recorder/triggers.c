// SPDX-License-Identifier: BSD-2-Clause
/* The triggers of the command line: which there are, and when each begins to hold. See triggers.h. */
#include "triggers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "jsonl.h"
#include "registry.h"
#include "trigger_kind.h"

#define MAX_KINDS    16
#define MAX_TRIGGERS 16

static const struct trigger_kind *kinds[MAX_KINDS];
static int kind_count;
static struct trigger triggers[MAX_TRIGGERS];
static int count;

static void print_firing(const struct firing *firing)
{
	static int number;

	printf("{\"fired\":%d,\"ns\":%llu,\"trigger\":", ++number, (unsigned long long)firing->ns);
	json_string(stdout, firing->trigger);
	printf(",\"kind\":\"%s\",\"value\":%llu,\"detail\":", firing->kind,
	       (unsigned long long)firing->value);
	json_string(stdout, firing->detail);
	puts("}");
	fflush(stdout);
}

void (*on_fire)(const struct firing *firing) = print_firing;

/* Sorted by name: constructors run in the order of linking. */
void trigger_register(const struct trigger_kind *kind)
{
	int at = kind_count++;

	if (kind_count > MAX_KINDS)
		abort();
	for (; at && strcmp(kinds[at - 1]->name, kind->name) > 0; at--)
		kinds[at] = kinds[at - 1];
	kinds[at] = kind;
}

struct trigger *trigger_of(const struct trigger_kind *kind, int i)
{
	for (int at = 0; at < count; at++)
		if (triggers[at].kind == kind && !i--)
			return &triggers[at];
	return NULL;
}

uint64_t trigger_lowest(const struct trigger_kind *kind)
{
	uint64_t lowest = UINT64_MAX;

	for (int i = 0; i < count; i++)
		if (triggers[i].kind == kind && triggers[i].limit < lowest)
			lowest = triggers[i].limit;
	return lowest;
}

bool trigger_number(char **text, char end, uint64_t *number)
{
	char *behind;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*number = strtoull(*text, &behind, 10);
	if (errno || !*number || *behind != end)
		return false;
	*text = behind + (end != 0);
	return true;
}

bool trigger_parse_limit(struct trigger *trigger, char *rest)
{
	return trigger_number(&rest, 0, &trigger->limit);
}

static int unknown_trigger(const char *spec)
{
	char message[1024] = "no such trigger; choose from ";
	size_t bytes = strlen(message);

	for (int i = 0; i < kind_count && bytes < sizeof(message); i++)
		bytes += snprintf(message + bytes, sizeof(message) - bytes, "%s%s", i ? ", " : "",
				  kinds[i]->syntax);
	return fail(spec, message);
}

static const struct trigger_kind *find_kind(const char *spec)
{
	size_t bytes = strcspn(spec, ":");

	for (int i = 0; i < kind_count; i++)
		if (strlen(kinds[i]->name) == bytes && !memcmp(kinds[i]->name, spec, bytes))
			return kinds[i];
	return NULL;
}

int triggers_add(const char *spec, const char *shown)
{
	const struct trigger_kind *kind = find_kind(spec);
	struct trigger *trigger = &triggers[count];
	char rest[TRIGGER_TEXT], message[TRIGGER_TEXT];

	if (!kind)
		return unknown_trigger(spec);
	if (count == MAX_TRIGGERS)
		return fail(spec, "too many triggers; at most 16");
	if (strlen(spec) >= sizeof(rest) || strlen(shown) >= sizeof(trigger->shown))
		return fail(kind->name, "a trigger has at most 255 bytes");
	memset(trigger, 0, sizeof(*trigger));
	trigger->fd = -1;
	trigger->kind = kind;
	trigger->hold_ns = TRIGGER_HOLD_NS;
	strcpy(trigger->shown, shown);
	strcpy(rest, spec + strlen(kind->name) + (spec[strlen(kind->name)] == ':'));
	if (!kind->parse(trigger, rest)) {
		snprintf(message, sizeof(message), "not %s", kind->syntax);
		return fail(spec, message);
	}
	count++;
	return 0;
}

int triggers_add_option(const char *argument)
{
	const char *equals = strchr(argument, '=');
	char spec[TRIGGER_TEXT];

	if (!equals)
		return triggers_add(argument, argument);
	if ((size_t)(equals - argument) >= sizeof(spec))
		return fail(argument, "a trigger has at most 255 bytes");
	memcpy(spec, argument, equals - argument);
	spec[equals - argument] = 0;
	return triggers_add(spec, equals + 1);
}

/* The collector that a trigger needs; NULL: it needs none. */
static const struct collector_ops *needed_by(const struct trigger *trigger)
{
	const struct collector_ops *ops;

	if (!trigger->kind->needs)
		return NULL;
	for_each_collector(ops) if (!strcmp(ops->name, trigger->kind->needs)) return ops;
	abort();
}

int triggers_check(void)
{
	char message[TRIGGER_TEXT];

	for (int i = 0; i < count; i++) {
		const struct collector_ops *needed = needed_by(&triggers[i]);

		if (!needed || needed->state->wanted)
			continue;
		snprintf(message, sizeof(message), "needs the collector %s; add it to --collect",
			 needed->name);
		return fail(triggers[i].shown, message);
	}
	return 0;
}

int triggers_start(void)
{
	char message[1024];

	for (int i = 0; i < count; i++) {
		struct trigger *trigger = &triggers[i];
		const struct collector_ops *needed = needed_by(trigger);

		if (needed && !needed->state->on) {
			snprintf(message, sizeof(message),
				 "needs the collector %s, which is off: %s; %s", needed->name,
				 needed->state->off_reason, needed->state->remedy);
			return fail(trigger->shown, message);
		}
		if (trigger->kind->start && trigger->kind->start(trigger))
			return -1;
	}
	return 0;
}

void trigger_report(struct trigger *trigger, uint64_t value, const char *format, ...)
{
	va_list args;

	/* While the condition holds, nobody reads the text: no time is spent on it. */
	if (!trigger->holds && (!trigger->reported || value > trigger->value)) {
		va_start(args, format);
		vsnprintf(trigger->detail, sizeof(trigger->detail), format, args);
		va_end(args);
		trigger->value = value;
	}
	trigger->reported = true;
}

static void fire(const struct trigger *trigger, uint64_t now_ns)
{
	struct firing firing = { .ns = now_ns,
				 .trigger = trigger->shown,
				 .kind = trigger->kind->name,
				 .value = trigger->value,
				 .detail = trigger->detail };

	on_fire(&firing);
}

void triggers_tick(uint64_t now_ns)
{
	for (int i = 0; i < count; i++) {
		struct trigger *trigger = &triggers[i];

		if (trigger->kind->tick)
			trigger->kind->tick(trigger, now_ns);
		if (trigger->reported) {
			if (!trigger->holds)
				fire(trigger, now_ns);
			trigger->holds = true;
			trigger->reported = false;
			trigger->seen_ns = now_ns;
		} else if (trigger->holds && now_ns - trigger->seen_ns > trigger->hold_ns) {
			trigger->holds = false;
		}
	}
}

bool triggers_present(void)
{
	for (int i = 0; i < count; i++)
		if (triggers[i].holds)
			return true;
	return false;
}

void triggers_close(void)
{
	for (int i = 0; i < count; i++) {
		if (triggers[i].fd >= 0)
			close(triggers[i].fd);
		triggers[i].fd = -1;
	}
}
