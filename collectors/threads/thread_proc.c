// SPDX-License-Identifier: BSD-2-Clause
/* Threads as /proc shows them; see thread_proc.h. */
#include "thread_proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/records.h"

#define PF_KTHREAD 0x00200000 /* linux/sched.h */
#define ACCOUNT_LATE_NS \
	20000000ULL /* a running thread's account is brought up to date by the tick */

/* The text of a thread's file in /proc; false: there is none. */
static bool read_text(int tid, int tgid, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", tgid, tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, room - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = 0;
	return bytes > 0;
}

static bool is_delayacct_on(void)
{
	FILE *in = fopen("/proc/sys/kernel/task_delayacct", "re");
	int on = 1; /* Before this file was (5.14), it was a matter of the kernel's command line. */

	if (!in)
		return true;
	if (fscanf(in, "%d", &on) != 1)
		on = 0;
	fclose(in);
	return on;
}

struct thread_proc_kept thread_proc_kept(void)
{
	static struct thread_proc_kept kept;
	static bool is_known;

	if (!is_known)
		kept = (struct thread_proc_kept){
			.times = !access("/proc/self/schedstat", R_OK),
			.io = !access("/proc/self/io", R_OK),
			.blkio = is_delayacct_on(),
		};
	is_known = true;
	return kept;
}

static void each_thread(int tgid, void (*each)(int tid, int tgid, bool is_leader))
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", tgid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		int tid = atoi(entry->d_name);

		if (tid)
			each(tid, tgid, tid == tgid);
	}
	if (tasks)
		closedir(tasks);
}

bool thread_proc_each(void (*each)(int tid, int tgid, bool is_leader))
{
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc))) {
		int tgid = atoi(entry->d_name);

		if (tgid)
			each_thread(tgid, each);
	}
	return proc && !closedir(proc);
}

static enum thread_state state_of(char letter)
{
	switch (letter) {
	case 'R':
		return THREAD_STATE_RUNNING;
	case 'S':
	case 'I':
		return THREAD_STATE_SLEEPING;
	case 'D':
		return THREAD_STATE_BLOCKED;
	default:
		return THREAD_STATE_OTHER;
	}
}

bool thread_proc_truth(int tid, int tgid, struct thread_truth *truth)
{
	char text[1024];

	if (!read_text(tid, tgid, "schedstat", text, sizeof(text)) ||
	    sscanf(text, "%" SCNu64 " %" SCNu64, &truth->run_ns, &truth->run_delay_ns) != 2)
		return false;
	if (read_text(tid, tgid, "io", text, sizeof(text)))
		sscanf(text,
		       "rchar: %" SCNu64 " wchar: %" SCNu64 " syscr: %*u syscw: %*u"
		       " read_bytes: %" SCNu64 " write_bytes: %" SCNu64
		       " cancelled_write_bytes: %" SCNu64,
		       &truth->rchar, &truth->wchar, &truth->read_bytes, &truth->write_bytes,
		       &truth->cancelled_write_bytes);
	return true;
}

uint64_t thread_proc_left_cpu(int tid, int tgid, const struct thread_slot *slot, uint64_t now_ns)
{
	struct thread_truth truth;
	uint64_t until_ns;

	if (!thread_proc_truth(tid, tgid, &truth) || truth.run_ns < slot->ran_total_ns)
		return 0;
	until_ns = slot->since_ns + truth.run_ns - slot->ran_total_ns;
	return until_ns + ACCOUNT_LATE_NS < now_ns ? until_ns : 0;
}

/* A thread's comm, which may have any character, without the line's end. False: it is gone. */
static bool read_comm(int tid, int tgid, char *name, size_t room)
{
	char text[64];
	size_t bytes;

	if (!read_text(tid, tgid, "comm", text, sizeof(text)))
		return false;
	bytes = strlen(text);
	if (bytes)
		bytes--;
	if (bytes > room - 1)
		bytes = room - 1;
	memcpy(name, text, bytes);
	name[bytes] = 0;
	return true;
}

void thread_proc_names(int tid, int tgid, struct thread_slot *slot)
{
	bool is_read = read_comm(tid, tgid, slot->comm, sizeof(slot->comm));

	/* Behind a kworker's own name stands what it works on. A rescuer's own name has a letter here. */
	if (is_read && slot->is_kernel_thread && !strncmp(slot->comm, "kworker/", 8) &&
	    strchr("0123456789u", slot->comm[8]))
		slot->comm[strcspn(slot->comm, "-+")] = 0;
	read_comm(tgid, tgid, slot->process, sizeof(slot->process));
}

bool thread_proc_read(int tid, int tgid, struct thread_slot *slot)
{
	char text[1024], *behind;
	unsigned int flags;
	char state;

	if (!read_text(tid, tgid, "stat", text, sizeof(text)))
		return false;
	behind = strrchr(text, ')'); /* the name may have any character */
	if (!behind || sscanf(behind + 1, " %c %d %*d %*d %*d %*d %u", &state, &slot->parent_tgid,
			      &flags) != 3)
		return false;
	slot->tid = tid;
	slot->tgid = tgid;
	slot->is_kernel_thread = (flags & PF_KTHREAD) != 0;
	slot->key.state = state_of(state);
	thread_proc_names(tid, tgid, slot);
	return thread_proc_truth(tid, tgid, &slot->before);
}
