// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The map of completions under way, which the recorder creates once and lends to every object: see completion.h. */
#include "common/completion.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
