// SPDX-License-Identifier: BSD-2-Clause
/*
 * pgmeter's sequential tests. The threads of a file share its next offset: a thread whose request is done takes the
 * next one. So as many requests as there are threads are outstanding, all close together, as with asynchronous I/O. The
 * threads share the descriptor too, so that the kernel's readahead sees one sequential stream.
 *
 * fio's threads have offsets of their own. Given every n-th request each, they drift apart, and each then reads with
 * gaps: 4 fio threads read 117 MB/s with 3,700 seeks/s, these 4 read 276 MB/s with 23 seeks/s (8 KiB, a 2 GiB file
 * on ext4, MEM=512M, a busy machine).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/crew.h"
#include "common/session/fail.h"
#include "common/session/phases.h"
#include "tests.h"

struct file {
	int fd;
	_Atomic uint64_t next; /* number of the next request */
} __attribute__((aligned(128)));

/* The test, the same for all threads. */
struct job {
	uint64_t bytes, per_file; /* bytes of a request, requests of a file */
	bool writes;
	int64_t from_ns, end_ns, sample_ns; /* the measured part, and the length of a sample */
};

struct worker {
	const struct job *job;
	struct file *file;
	char *buffer;
	uint64_t *counts; /* requests completed in each sample; the last sample may be shorter */
};

static void one_request(const struct worker *me)
{
	const struct job *job = me->job;
	uint64_t request =
		atomic_fetch_add_explicit(&me->file->next, 1, memory_order_relaxed) % job->per_file;
	off_t at = (off_t)(request * job->bytes);
	ssize_t done = job->writes ? pwrite(me->file->fd, me->buffer, job->bytes, at)
				   : pread(me->file->fd, me->buffer, job->bytes, at);

	if (done < 0)
		fail_errno(job->writes ? "cannot write" : "cannot read", "a file in " TOP);
	if ((uint64_t)done != job->bytes)
		fail(EXIT_RUN_FAILED,
		     "a file in " TOP ": %zd bytes of a request of %" PRIu64
		     " were done; look in dmesg, and check the file system",
		     done, job->bytes);
}

static void work(void *own, int phase, _Atomic uint64_t *done)
{
	const struct worker *me = own;
	const struct job *job = me->job;

	(void)phase;
	for (;;) {
		int64_t now;

		one_request(me);
		now = now_ns();
		if (now >= job->end_ns)
			return;
		crew_did(done, 1);
		if (now >= job->from_ns)
			me->counts[(now - job->from_ns) / job->sample_ns]++;
	}
}

static struct file *open_files(const struct settings *set, bool writes)
{
	struct file *files =
		must_alloc(aligned_alloc(_Alignof(struct file), set->files * sizeof(*files)));
	char path[PATH_MAX];

	for (uint64_t i = 0; i < set->files; i++) {
		snprintf(path, sizeof(path), "%s/" TOP "/file-%" PRIu64, set->dir, i);
		atomic_init(&files[i].next, 0);
		files[i].fd = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
		if (files[i].fd < 0)
			fail_errno("cannot be opened", path);
	}
	return files;
}

static void close_files(const struct settings *set, struct file *files)
{
	for (uint64_t i = 0; i < set->files; i++)
		if (close(files[i].fd) != 0)
			fail_errno("cannot be closed", "a file in " TOP);
	free(files);
}

static struct worker *make_workers(const struct settings *set, const struct job *job,
				   struct file *files, uint64_t outstanding)
{
	uint64_t threads = set->files * outstanding, samples = set->measured_s / set->sample_s + 1;
	struct worker *workers = must_alloc(calloc(threads, sizeof(*workers)));

	for (uint64_t i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.job = job,
			.file = &files[i / outstanding],
			.buffer = must_alloc(malloc(job->bytes)),
			.counts = must_alloc(calloc(samples, sizeof(uint64_t))),
		};
		contents_fill(workers[i].buffer, job->bytes);
	}
	return workers;
}

/* Writes the samples to the log. Returns the number of requests in the measured part. */
static uint64_t write_samples(const struct settings *set, const char *name, struct worker *workers,
			      uint64_t threads)
{
	uint64_t whole = set->measured_s / set->sample_s, all = 0;
	bool writes = workers[0].job->writes;
	char path[PATH_MAX];
	FILE *out;

	log_path(set, name, path);
	out = fopen(path, "we");
	if (out == NULL)
		fail_errno("cannot be written", path);
	for (uint64_t sample = 0; sample <= whole; sample++) {
		uint64_t requests = 0;

		for (uint64_t i = 0; i < threads; i++)
			requests += workers[i].counts[sample];
		all += requests;
		if (sample < whole)
			fprintf(out, "%" PRIu64 ", %" PRIu64 ", %d, %" PRIu64 ", 0\n",
				(sample + 1) * set->sample_s * 1000, requests / set->sample_s,
				writes, workers[0].job->bytes);
	}
	if (ferror(out) || fclose(out) != 0)
		fail_errno("cannot be written", path);
	for (uint64_t i = 0; i < threads; i++) {
		free(workers[i].buffer);
		free(workers[i].counts);
	}
	free(workers);
	return all;
}

struct result sequential_measure(const struct settings *set, const char *name,
				 const struct mix *test, uint64_t outstanding)
{
	uint64_t threads = set->files * outstanding;
	struct result result = { .log_lines = 1 };
	struct job job = {
		.bytes = test->bytes,
		.per_file = (set->mib << 20) / test->bytes,
		.writes = test->read_pct == 0,
		.sample_ns = (int64_t)set->sample_s * SECOND_NS,
	};
	struct file *files = open_files(set, job.writes);
	struct worker *workers = make_workers(set, &job, files, outstanding);
	struct crew *crew = crew_start(threads, work, workers, sizeof(*workers));

	job.from_ns = now_ns() + (int64_t)set->warmup_s * SECOND_NS;
	job.from_ns = set->warmup_s ? phase_cut(job.from_ns) : job.from_ns;
	job.end_ns = phase_cut(job.from_ns + (int64_t)set->measured_s * SECOND_NS);
	crew_phase(crew, 0, name);
	crew_end(crew);
	close_files(set, files);
	result.start_ns = job.from_ns;
	result.end_ns = job.end_ns;
	result.requests = write_samples(set, name, workers, threads);
	result.bytes = result.requests * job.bytes;
	return result;
}
