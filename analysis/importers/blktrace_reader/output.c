// SPDX-License-Identifier: BSD-2-Clause
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORD struct block_record
#define FIELD(name, type)                                                                 \
	"{\"name\":\"" #name "\",\"offset\":%zu,\"bytes\":%zu,\"type\":\"" type "\"%s},", \
		offsetof(RECORD, name), sizeof(((RECORD *)0)->name)

/* The recorder takes this from its BPF object's BTF; a test compares the two. */
static int describe(FILE *out)
{
	fprintf(out,
		"{\"table\":\"block\",\"record_bytes\":%zu,\"byte_order\":\"%s\","
		"\"clock\":\"CLOCK_MONOTONIC\",\"bin_ns\":100000000,\"fields\":[",
		sizeof(RECORD), __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big");
	fprintf(out, FIELD(queue_ns, "u64"), "");
	fprintf(out, FIELD(insert_ns, "u64"), "");
	fprintf(out, FIELD(issue_ns, "u64"), "");
	fprintf(out, FIELD(complete_ns, "u64"), "");
	fprintf(out, FIELD(sector, "u64"), "");
	fprintf(out, FIELD(ino, "u64"), "");
	fprintf(out, FIELD(bytes, "u32"), "");
	fprintf(out, FIELD(dev, "u32"), "");
	fprintf(out, FIELD(flags, "u32"), "");
	fprintf(out, FIELD(pid, "u32"), "");
	fprintf(out, FIELD(tgid, "u32"), "");
	fprintf(out, FIELD(error, "i32"), "");
	fprintf(out, FIELD(merges, "u16"), "");
	fprintf(out, FIELD(requeues, "u16"), "");
	fprintf(out, FIELD(op, "u8"), ",\"enum\":\"block_op\"");
	fprintf(out, FIELD(class, "u8"), ",\"enum\":\"block_class\"");
	fprintf(out, FIELD(queue_source, "u8"), ",\"enum\":\"block_source\"");
	fprintf(out, FIELD(in_workload, "u8"), "");
	fprintf(out, "{\"name\":\"comm\",\"offset\":%zu,\"bytes\":%zu,\"type\":\"char\"}",
		offsetof(RECORD, comm), sizeof(((RECORD *)0)->comm));
	fprintf(out,
		"],\"enums\":{"
		"\"block_op\":{\"0\":\"read\",\"1\":\"write\",\"2\":\"discard\",\"3\":\"flush\","
		"\"4\":\"write_zeroes\",\"5\":\"secure_erase\",\"6\":\"zone\",\"7\":\"driver\","
		"\"8\":\"other\"},"
		"\"block_class\":{\"0\":\"unknown\",\"1\":\"data\",\"2\":\"metadata\","
		"\"3\":\"journal\"},"
		"\"block_source\":{\"0\":\"bio\",\"1\":\"request\"},"
		"\"block_flag\":{\"1\":\"sync\",\"2\":\"meta\",\"4\":\"fua\",\"8\":\"preflush\","
		"\"16\":\"ahead\",\"32\":\"prio\"}}}");
	return ferror(out) ? -1 : 0;
}

static void write_all(struct output *output, const void *data, size_t length)
{
	size_t done = 0;

	while (done < length && !output->error) {
		ssize_t n = write(output->fd, (const char *)data + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			output->error = n < 0 ? errno : EIO;
		else
			done += n;
	}
}

int output_open(struct output *output, int directory)
{
	static const char zeros[8];
	uint32_t lengths[2] = { 0 };
	size_t length = 0;
	char *json = NULL;
	FILE *out = open_memstream(&json, &length);
	int err;

	memset(output, 0, sizeof(*output));
	output->fd = -1;
	if (!out)
		return -1;
	err = describe(out);
	if (fclose(out) || err) {
		free(json);
		return -1;
	}
	output->records = calloc(OUTPUT_RECORDS, sizeof(*output->records));
	output->fd = openat(directory, "block.rec", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	if (output->records && output->fd >= 0) {
		lengths[0] = length;
		write_all(output, "SKMREC01", 8);
		write_all(output, lengths, sizeof(lengths));
		write_all(output, json, length);
		write_all(output, zeros, (8 - length % 8) % 8);
		errno = output->error;
	}
	free(json);
	return output->records && output->fd >= 0 && !output->error ? 0 : -1;
}

void output_flush(struct output *output)
{
	write_all(output, output->records, output->count * sizeof(*output->records));
	output->count = 0;
}

struct block_record *output_next(struct output *output)
{
	struct block_record *record;

	if (output->count == OUTPUT_RECORDS)
		output_flush(output);
	record = &output->records[output->count++];
	memset(record, 0, sizeof(*record));
	output->rows++;
	return record;
}

int output_close(struct output *output)
{
	output_flush(output);
	if (close(output->fd) && !output->error)
		output->error = errno;
	free(output->records);
	errno = output->error;
	return output->error ? -1 : 0;
}
