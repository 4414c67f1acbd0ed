// SPDX-License-Identifier: BSD-2-Clause
/* The counts of all CPUs as one. */
#include "recorder.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

bool counts_sum(int map_fd, int cpus, void *sum, size_t bytes)
{
	uint64_t *parts = calloc(cpus, bytes), *all = sum;
	size_t members = bytes / sizeof(*all);
	uint32_t zero = 0;
	bool ok = parts && bpf_map_lookup_elem(map_fd, &zero, parts) == 0;

	memset(sum, 0, bytes);
	for (int i = 0; ok && i < cpus; i++)
		for (size_t j = 0; j < members; j++)
			all[j] += parts[i * members + j];
	free(parts);
	return ok;
}
