/* SPDX-License-Identifier: BSD-2-Clause */
/* event.rec: takes the programs' messages, adds what the kernel tells only by address, and writes the records. */
#ifndef SEEKMETER_EVENT_TABLE_H
#define SEEKMETER_EVENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct collector_state;
struct events_bpf;
struct options;

/* 0; or -1 with errno. */
int event_table_open(const struct options *options, struct events_bpf *skel,
		     struct collector_state *state);
/* Writes what has come. `last`: and the events that are still open; the programs are detached. */
void event_table_drain(bool last);
/* Reports of a log force that were a second one of the same. */
uint64_t event_table_doubles(void);
void event_table_close(struct collector_state *state);

#endif
