/* SPDX-License-Identifier: BSD-2-Clause */
/* losses.json of an import, and facts for run.json. */
#ifndef SEEKMETER_BLKTRACE_SUMMARY_H
#define SEEKMETER_BLKTRACE_SUMMARY_H

#include "events.h"
#include "requests.h"

/* Writes losses.json into the directory. Returns -1 and errno. */
int summary_write_losses(int directory, const struct stream *streams, size_t count,
			 const struct requests *requests, uint64_t cpu_ns);
/* Prints the facts as one JSON object. Returns -1 and errno. */
int summary_print_facts(FILE *out, const struct stream *streams, size_t count,
			const struct requests *requests);

#endif
