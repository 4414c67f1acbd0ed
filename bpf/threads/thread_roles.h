/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Roles of threads, for records. */
#ifndef SEEKMETER_THREAD_ROLES_H
#define SEEKMETER_THREAD_ROLES_H

/*
 * Whose thread it is. The programs tell workload, kernel, recorder, other and idle apart; the analysis makes kernel
 * threads that work for the file system under test, or for its disk, filesystem and disk.
 */
enum thread_role {
	THREAD_ROLE_UNKNOWN,
	THREAD_ROLE_WORKLOAD, /* in the workload's cgroup; without one, any process but Seekmeter's */
	THREAD_ROLE_KERNEL,
	THREAD_ROLE_FILESYSTEM,
	THREAD_ROLE_DISK,
	THREAD_ROLE_RECORDER, /* the recorder, the session, its children */
	THREAD_ROLE_OTHER,
	THREAD_ROLE_IDLE, /* the CPU's idle task */
} __attribute__((packed));

#endif
