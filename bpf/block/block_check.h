/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Is a request that `inflight` holds still under way? Part of block.bpf.c; the recorder runs this, for a trigger.
 *
 * A slot may hold a request that has completed: where the kernel did not run rq_complete(), until the tag's next issue.
 */
#ifndef SEEKMETER_BLOCK_CHECK_H
#define SEEKMETER_BLOCK_CHECK_H

#include "block_state.h"

u32 checked_slot;      /* set by the recorder */
bool checked_is_there; /* the answer */

SEC("raw_tp")
int check_in_flight(void *ctx)
{
	u32 index = checked_slot;
	struct block_inflight *slot = bpf_map_lookup_elem(&inflight, &index);
	struct request *rq = slot ? (struct request *)slot->request : NULL;

	checked_is_there = rq && BPF_CORE_READ(rq, state) !=
					 bpf_core_enum_value(enum mq_rq_state, MQ_RQ_IDLE);
	return 0;
}

#endif
