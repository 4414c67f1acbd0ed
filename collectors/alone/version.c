// SPDX-License-Identifier: BSD-2-Clause
/* The version of this program: the Makefile takes it from pyproject.toml. */
#include "version.h"

const char recorder_version[] = SEEKMETER_VERSION;
