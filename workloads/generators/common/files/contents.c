// SPDX-License-Identifier: BSD-2-Clause
/* File contents: made-up text that compresses about as source code does; see contents.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "contents.h"
#include "common/session/fail.h"
#include "common/stats/rng.h"

#define TEXT_BYTES	  (1024 * 1024)
#define WORDS		  4096
#define WORD_BYTES_MAX	  12
#define REPEAT_ONE_IN	  3
#define REPEAT_BYTES_MIN  32
#define REPEAT_BACK_BYTES 8192

/* The text is repeated past its end, so that a chunk may start anywhere in the first TEXT_BYTES. */
static char text[TEXT_BYTES + CONTENTS_CHUNK_BYTES];
static char read_buffer[CONTENTS_CHUNK_BYTES];

void contents_init(void)
{
	static const char letters[] = "etaoinsrhldcumfpgwybvkxjqz_0123456789";
	static const char marks[] = "    ,;().*=->\n\t\"";
	static char vocabulary[WORDS][WORD_BYTES_MAX + 1];
	struct rng rng = { .state = 2007 };
	size_t at = 0;

	for (int i = 0; i < WORDS; i++) {
		int length = 2 + (int)rng_below(&rng, WORD_BYTES_MAX - 2);

		for (int j = 0; j < length; j++) {
			/* the smaller of two draws: letters at the front of the list are common */
			uint64_t a = rng_below(&rng, sizeof(letters) - 1);
			uint64_t b = rng_below(&rng, sizeof(letters) - 1);

			vocabulary[i][j] = letters[a < b ? a : b];
		}
	}
	while (at < TEXT_BYTES) {
		/* the smallest of three draws: a few words make up most of a text */
		uint64_t word = rng_below(&rng, WORDS);
		size_t length = 0;

		for (int i = 0; i < 2; i++) {
			uint64_t other = rng_below(&rng, WORDS);

			if (other < word)
				word = other;
		}
		for (const char *c = vocabulary[word]; *c != '\0' && at < TEXT_BYTES; c++)
			text[at++] = *c;
		if (at < TEXT_BYTES)
			text[at++] = marks[rng_below(&rng, sizeof(marks) - 1)];
		/* code repeats itself: every few words, a phrase from a little before */
		if (at > REPEAT_BACK_BYTES && rng_below(&rng, REPEAT_ONE_IN) == 0)
			length = REPEAT_BYTES_MIN + rng_below(&rng, REPEAT_BYTES_MIN);
		for (size_t from = at - rng_below(&rng, REPEAT_BACK_BYTES) - 1;
		     length > 0 && at < TEXT_BYTES; length--)
			text[at++] = text[from++];
	}
	for (size_t i = 0; i < CONTENTS_CHUNK_BYTES; i++)
		text[TEXT_BYTES + i] = text[i];
}

const char *contents_at(uint64_t key, uint64_t offset)
{
	struct rng rng = { .state = key };

	return text + (rng_next(&rng) + offset) % TEXT_BYTES;
}

void contents_write(int fd, uint64_t bytes, uint64_t key, const char *path)
{
	struct rng rng = { .state = key };
	uint64_t text_offset = rng_next(&rng);

	while (bytes > 0) {
		size_t want = bytes < CONTENTS_CHUNK_BYTES ? (size_t)bytes : CONTENTS_CHUNK_BYTES;
		ssize_t done = write(fd, text + text_offset % TEXT_BYTES, want);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			fail_errno("cannot write", path);
		if (done == 0)
			fail(EXIT_RUN_FAILED, "%s: write makes no progress; look in dmesg", path);
		bytes -= (uint64_t)done;
		text_offset += (uint64_t)done;
	}
}

bool contents_same(int fd, uint64_t bytes, uint64_t key, const char *path)
{
	struct rng rng = { .state = key };
	uint64_t text_offset = rng_next(&rng);
	char buffer[16 * 1024];

	for (;;) {
		ssize_t done = read(fd, buffer, sizeof(buffer));

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			fail_errno("cannot read", path);
		if (done == 0)
			return bytes == 0;
		if ((uint64_t)done > bytes ||
		    memcmp(buffer, text + text_offset % TEXT_BYTES, (size_t)done) != 0)
			return false;
		bytes -= (uint64_t)done;
		text_offset += (uint64_t)done;
	}
}

void contents_fill(char *buffer, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		size_t part = bytes - done < TEXT_BYTES ? bytes - done : TEXT_BYTES;

		memcpy(buffer + done, text, part);
		done += part;
	}
}

uint64_t contents_read(int fd, const char *path)
{
	uint64_t bytes = 0;

	for (;;) {
		ssize_t done = read(fd, read_buffer, sizeof(read_buffer));

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			fail_errno("cannot read", path);
		if (done == 0)
			return bytes;
		bytes += (uint64_t)done;
	}
}
