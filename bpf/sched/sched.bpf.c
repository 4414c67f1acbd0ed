// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Switches and wakes, one record each, for the critical path. */
#include "common/kernel.h"

#include <bpf/bpf_helpers.h>

#include "common/records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keep the records' layouts in this object's BTF, where the recorder reads them. */
struct switch_record *switch_record_used;
struct wake_record *wake_record_used;
