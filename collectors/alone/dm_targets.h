/* SPDX-License-Identifier: BSD-2-Clause */
/* Target types of a device-mapper volume (linear, crypt, thin, ...), by ioctl: sysfs has none. */
#ifndef SEEKMETER_ALONE_DM_TARGETS_H
#define SEEKMETER_ALONE_DM_TARGETS_H

#include "alone/sysfs.h"

/* Each type once, with blanks between; "": not known. dev: "253:0". */
void dm_targets(const char *dev, char text[TEXT_MOST]);

#endif
