/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SEEKMETER_BLKTRACE_PAIRING_H
#define SEEKMETER_BLKTRACE_PAIRING_H

#include "requests.h"

/* What an event means for the bios and requests of its device; a finished request becomes a row. */
void pairing_event(struct requests *requests, struct device *device, const struct event *event);

#endif
