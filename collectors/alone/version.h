/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of this program, and of the facts that it writes. */
#ifndef SEEKMETER_ALONE_VERSION_H
#define SEEKMETER_ALONE_VERSION_H

#define ALONE_SCHEMA 1 /* of alone.json: SCHEMA of analysis/importers/recorder_alone/facts.py */

extern const char recorder_version[]; /* of pyproject.toml */

#endif
