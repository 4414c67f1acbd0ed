/* SPDX-License-Identifier: BSD-2-Clause */
/* What the reader says beside the rows: losses.json, and facts for run.json. */
#ifndef SEEKMETER_BLKTRACE_SAID_H
#define SEEKMETER_BLKTRACE_SAID_H

#include "events.h"
#include "requests.h"

/* Writes losses.json into the directory. Returns -1 and errno. */
int said_losses(int directory, const struct stream *streams, size_t count,
		const struct requests *requests, uint64_t cpu_ns);
/* Prints the facts as one JSON object. Returns -1 and errno. */
int said_facts(FILE *out, const struct stream *streams, size_t count,
	       const struct requests *requests);

#endif
