// SPDX-License-Identifier: BSD-2-Clause
/* The map of completions under way: see completion.h. */
#include "completion.h"

#include <bpf/libbpf.h>

#include "common/records.h"

#include "completion.skel.h" /* uses the types of records.h */

static struct completion_bpf *skel;

int completion_share(struct bpf_map *map)
{
	if (!skel)
		skel = completion_bpf__open_and_load();
	return skel ? bpf_map__reuse_fd(map, bpf_map__fd(skel->maps.completions)) : -1;
}

void completion_close(void)
{
	completion_bpf__destroy(skel);
	skel = NULL;
}
