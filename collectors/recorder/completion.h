/* SPDX-License-Identifier: BSD-2-Clause */
/* The map of completions under way (bpf/common/completion.h): created once, used by several collectors' objects. */
#ifndef SEEKMETER_COMPLETION_MAP_H
#define SEEKMETER_COMPLETION_MAP_H

struct bpf_map;

/* Makes an opened object's map completions the shared one; call it before the load. 0, or -1 with errno. */
int completion_share(struct bpf_map *map);
void completion_close(void);

#endif
