/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests in, answers at the time that the model says. One lock covers the model, the requests and the dirty sectors;
 * whoever holds it may advance the model: the real-time thread when an event is due, the receiving thread when an answer
 * is due at once.
 */
#ifndef SEEKMETER_DRIVE_SERVICE_H
#define SEEKMETER_DRIVE_SERVICE_H

#include "transport.h"

/* Takes a request of a transport. Waits where the server has no memory left for its data. */
void service_submit(struct service *service, const struct request *request);

#endif
