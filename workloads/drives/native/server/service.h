/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests in, answers at the time that the model says. The receiving thread submits; one real-time thread steps the
 * model when an event is due and gives the answers. Service is kept in the model's time: a late answer makes the
 * next one no later.
 */
#ifndef SEEKMETER_DRIVE_SERVICE_H
#define SEEKMETER_DRIVE_SERVICE_H

#include "transport.h"

/* Takes a request of a transport. Waits where the server has no memory left for its data. */
void service_submit(struct service *service, const struct request *request);

/* Starts the real-time thread. 0, or -1 with errno. */
int service_start(struct service *service, int priority);

#endif
