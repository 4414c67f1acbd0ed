/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files of sysfs and procfs: their text, numbers, and the names in a directory. */
#ifndef SEEKMETER_ALONE_SYSFS_H
#define SEEKMETER_ALONE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATH_MOST 768
#define TEXT_MOST 201 /* bytes that are kept of a file's text, with the 0 at their end */
#define NAME_MOST 64  /* of a device's name, which the kernel keeps below 32 */

/* Prints a path; false: it does not fit, and there is no such file. */
bool path_of(char path[PATH_MOST], const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text of a file without its line end; false, and "": it is missing or cannot be read. */
bool text_of(char *text, size_t room, const char *path);
/* The number in a file; 0: it has none. */
uint64_t number_of(const char *path);
bool exists(const char *path);
/* Calls `take` with each name in a directory, sda2 before sda10; a missing directory has none. */
void names_in(const char *directory, void (*take)(void *about, const char *name), void *about);
/* The last part of the path that a link leads to; false: it leads nowhere, or the name is too long. */
bool target_name(char name[NAME_MOST], const char *path);

#endif
