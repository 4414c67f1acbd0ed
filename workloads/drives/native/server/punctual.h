/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What makes the server punctual and safe from the memory it serves: real-time threads, locked memory, a CPU that does
 * not sleep deeply, and the kernel's leave to allocate while it writes out pages through this server.
 */
#ifndef SEEKMETER_DRIVE_PUNCTUAL_H
#define SEEKMETER_DRIVE_PUNCTUAL_H

#include <stdbool.h>

struct punctuality {
	char realtime[160]; /* "": yes; else why not */
	char locked[160];
	char awake[160];
	char flusher[160];
	char spared[160]; /* by the kernel's killer when memory is out */
	int cpus;	  /* that the server may use */
};

/* For the process; before threads are made. What fails is said, no reason to stop. */
void punctual_process(struct punctuality *punctuality);

/* After everything is allocated: locks it. */
void punctual_lock(struct punctuality *punctuality);

/* A thread with this real-time priority; without for 0, and where the kernel gives none. 0, or -1 with errno. */
int punctual_thread(void *(*run)(void *), void *argument, int priority);

#endif
