// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tells the session what the workload itself measured: one JSON object a line, appended with one write(2) to
 * the file that $SEEKMETER_FIGURES names. Without that variable nothing is written.
 */
#ifndef GENERATORS_FIGURES_H
#define GENERATORS_FIGURES_H

/* Open the file; a name that cannot be opened ends the program. Call once, before the first row. */
void figures_open(void);

/*
 * A row of TABLE ("": single figures, which belong to no table). MEMBERS are the row's columns as members of
 * a JSON object ("\"tasks\":%d,\"jobs_per_min\":%.1f"): numbers, and strings without quotes and backslashes
 * in them. Units are part of the names. Rows of a table have the same members in the same order.
 */
void figures_row(const char *table, const char *members, ...) __attribute__((format(printf, 2, 3)));

#endif
