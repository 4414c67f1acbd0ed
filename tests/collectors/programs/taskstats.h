// SPDX-License-Identifier: BSD-2-Clause
/* What the kernel counts of a thread: schedstat of /proc, and delays by taskstats (needs CAP_NET_ADMIN). */
#ifndef TESTS_TASKSTATS_H
#define TESTS_TASKSTATS_H

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

struct thread_counts {
	unsigned long long run_ns, run_delay_ns, blkio_ns, reclaim_ns;
	long sleeps, preemptions;
};

static int taskstats_socket;
static unsigned short taskstats_family;

/* Sends a command with one attribute to a family; returns the length of the answer, which is in the buffer. */
static ssize_t ask(unsigned short family, int command, int attribute, const void *value, int length,
		   char *answer, size_t size)
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr command;
		struct nlattr attribute;
		char value[32];
	} question = { 0 };

	question.head.nlmsg_type = family;
	question.head.nlmsg_flags = NLM_F_REQUEST;
	question.command.cmd = command;
	question.command.version = 1;
	question.attribute.nla_type = attribute;
	question.attribute.nla_len = NLA_HDRLEN + length;
	memcpy(question.value, value, length);
	question.head.nlmsg_len =
		NLMSG_LENGTH(GENL_HDRLEN) + NLA_HDRLEN + NLMSG_ALIGN((unsigned int)length);
	if (send(taskstats_socket, &question, question.head.nlmsg_len, 0) < 0)
		return -1;
	return recv(taskstats_socket, answer, size, 0);
}

/* Returns the value of an attribute in a row of them, NULL if there is none. */
static char *attribute_of(char *first, const char *end, int type)
{
	for (struct nlattr *at = (struct nlattr *)first; (char *)at + NLA_HDRLEN <= end;
	     at = (struct nlattr *)((char *)at + NLA_ALIGN(at->nla_len))) {
		if (at->nla_len < NLA_HDRLEN)
			break;
		if ((at->nla_type & NLA_TYPE_MASK) == type)
			return (char *)at + NLA_HDRLEN;
	}
	return NULL;
}

/* The attributes of a generic netlink answer; NULL: it is an error. */
static char *attributes(char *answer, ssize_t length)
{
	struct nlmsghdr *head = (struct nlmsghdr *)answer;

	if (length < (ssize_t)NLMSG_LENGTH(GENL_HDRLEN) || head->nlmsg_type == NLMSG_ERROR)
		return NULL;
	return answer + NLMSG_LENGTH(GENL_HDRLEN);
}

/* Returns -1 if the kernel has no taskstats. */
static int open_taskstats(void)
{
	struct sockaddr_nl here = { .nl_family = AF_NETLINK };
	char answer[4096], *first, *id;
	ssize_t length;

	taskstats_socket = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (taskstats_socket < 0 || bind(taskstats_socket, (struct sockaddr *)&here, sizeof(here)))
		return -1;
	length = ask(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, TASKSTATS_GENL_NAME,
		     sizeof(TASKSTATS_GENL_NAME), answer, sizeof(answer));
	first = attributes(answer, length);
	id = first ? attribute_of(first, answer + length, CTRL_ATTR_FAMILY_ID) : NULL;
	if (!id)
		return -1;
	memcpy(&taskstats_family, id, sizeof(taskstats_family));
	return 0;
}

/* Counts of a thread that runs: the calling one. Returns -1 and errno. */
static int count_myself(unsigned int tid, struct thread_counts *counts)
{
	char answer[4096], text[PROC_TEXT], *first, *mine, *found;
	struct taskstats stats = { 0 };
	struct timespec used;
	struct rusage usage;
	ssize_t length;

	length = ask(taskstats_family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID, &tid, sizeof(tid),
		     answer, sizeof(answer));
	first = attributes(answer, length);
	mine = first ? attribute_of(first, answer + length, TASKSTATS_TYPE_AGGR_PID) : NULL;
	found = mine ? attribute_of(mine, answer + length, TASKSTATS_TYPE_STATS) : NULL;
	if (!found) {
		errno = ENODATA;
		return -1;
	}
	memcpy(&stats, found,
	       sizeof(stats) < (size_t)(answer + length - found)
		       ? sizeof(stats)
		       : (size_t)(answer + length - found));
	counts->blkio_ns = stats.blkio_delay_total;
	counts->reclaim_ns = stats.freepages_delay_total;
	if (getrusage(RUSAGE_THREAD, &usage))
		return -1;
	counts->sleeps = usage.ru_nvcsw;
	counts->preemptions = usage.ru_nivcsw;
	/* Brings the kernel's sum of its CPU time up to date, which schedstat shows as it is. */
	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) || read_of(tid, "schedstat", text))
		return -1;
	return sscanf(text, "%llu %llu", &counts->run_ns, &counts->run_delay_ns) == 2 ? 0 : -1;
}

#endif
