/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands on stdin, one a line; answers on stdout, one line of JSON each. The end of stdin ends the server: the session
 * that started it is gone.
 *
 *   stats                     counts, lateness, CPU time
 *   kernel MAJOR:MINOR        the disk's number, for the rows of disk_service.rec
 *   cut WHEN lost|some|all SEED [torn]    a power cut (cut.h has WHEN); answers at once, and with another line at the cut
 *   power on                  the drive serves again, with an empty cache
 *   record off                no more rows: later ones count as lost
 *   stop                      stats, and the end
 */
#ifndef SEEKMETER_DRIVE_CONTROL_H
#define SEEKMETER_DRIVE_CONTROL_H

struct punctuality;
struct service;

/* Says that the server is ready and obeys until the end. The process's exit status. */
int control_run(struct service *service, const struct punctuality *punctuality);

/* One line on stdout and no more: why the server stops before it was ready. */
void control_error(const char *error);

#endif
