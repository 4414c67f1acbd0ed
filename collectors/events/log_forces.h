/* SPDX-License-Identifier: BSD-2-Clause */
/* XFS log forces: their ends are told by log buffer, and so put together here. */
#ifndef SEEKMETER_LOG_FORCES_H
#define SEEKMETER_LOG_FORCES_H

#include <stdbool.h>

struct event_message;
struct event_record;

/* Takes a message of the kind xfs_log_force, and adds the forces that are complete. */
void log_forces_take(const struct event_message *message,
		     void (*add)(const struct event_record *record));
/* Adds the forces that have waited for nothing for a while. `last`: and all others, as open ones. */
void log_forces_age(bool last, void (*add)(const struct event_record *record));

#endif
