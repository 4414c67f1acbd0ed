// SPDX-License-Identifier: BSD-2-Clause
/* The check of promises after a power cut and log replay: the tree against the log. */
#ifndef PROMISES_CHECK_H
#define PROMISES_CHECK_H

#include <stdbool.h>

#include "promises/ledger.h"

/*
 * Compares the tree below TOP in DIR_FD with the ledger and prints one JSON object. remove: removes the tree after that,
 * because a directory that cannot be removed is damage, too. Returns whether all promises were kept.
 */
bool check_promises(int dir_fd, struct ledger *ledger, bool remove);

#endif
