// SPDX-License-Identifier: BSD-2-Clause
/*
 * The results that the workload measures, for the session: one JSON object per line, appended with one write(2) to the
 * file $SEEKMETER_FIGURES. Without that variable nothing is written.
 */
#ifndef GENERATORS_RESULTS_H
#define GENERATORS_RESULTS_H

/* Opens the file, once, before the first row. A file that cannot be opened ends the program. */
void results_open(void);

/*
 * Writes a row of a table ("": single results, which belong to no table). members: the row's columns as members of a
 * JSON object ("\"tasks\":%d,\"jobs_per_min\":%.1f"), numbers, and strings without quotes and backslashes. Units are
 * part of the names. All rows of a table have the same members in the same order.
 */
void results_row(const char *table, const char *members, ...) __attribute__((format(printf, 2, 3)));

#endif
