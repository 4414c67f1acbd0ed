// SPDX-License-Identifier: BSD-2-Clause
#include "params.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 256

enum kind { U64, U32, NS, REAL };

struct key {
	const char *name;
	enum kind kind;
	size_t offset;
	double least;
	double most;
	bool is_optional;
};

#define FIELD(name, kind, least, most)                                               \
	{                                                                            \
#name, kind, offsetof(struct drive_params, name), least, most, false \
	}

/* 10 s, an hour: no drive is slower; sums of them stay far from the end of 64 bits */
#define LONG_NS 1e10
#define HOUR_NS 3.6e12

static const struct key keys[] = {
	FIELD(sectors, U64, 8, 0x1p40),
	FIELD(first_sector, U64, 0, 0x1p40),
	FIELD(rpm, REAL, 60, 100000),
	FIELD(surfaces, U32, 1, 64),
	FIELD(write_settle_ns, NS, 0, LONG_NS),
	FIELD(head_switch_ns, NS, 0, LONG_NS),
	FIELD(track_skew, REAL, 0, 0.999999),
	FIELD(cylinder_skew, REAL, 0, 0.999999),
	FIELD(read_overhead_ns, NS, 0, LONG_NS),
	FIELD(write_overhead_ns, NS, 0, LONG_NS),
	FIELD(bus_bytes_per_s, REAL, 1e5, 1e12),
	FIELD(queue_depth, U32, 1, DRIVE_MOST_DEPTH),
	FIELD(most_age_ns, NS, 0, HOUR_NS),
	FIELD(write_cache_bytes, U64, 0, 0x1p32),
	FIELD(write_cache_extents, U32, 0, 65536),
	FIELD(destage_at, REAL, 0, 1),
	FIELD(destage_idle_ns, NS, 0, HOUR_NS),
	/* 0 without the lines */
	{ "read_before", U32, offsetof(struct drive_params, read_before), 0, 1, true },
	{ "destage_window", U32, offsetof(struct drive_params, destage_window), 0, 64, true },
	FIELD(read_segments, U32, 0, 256),
	FIELD(segment_sectors, U32, 0, 262144),
};

#define KEYS	      (sizeof(keys) / sizeof(keys[0]))
#define MOST_CYLINDER 16777215
#define LEAST_TRACK   16
#define MOST_TRACK    65535

static const char *const scheduling_names[] = { "fifo", "sstf", "sptf" };

/* A decimal number without sign: digits only, so no space, hexadecimal or infinity comes in by strtod. */
static bool is_number(const char *word, bool real)
{
	if (word[0] < '0' || word[0] > '9')
		return false;
	return word[strspn(word, real ? "0123456789.e+-" : "0123456789")] == '\0';
}

static bool read_whole(const char *word, uint64_t most, uint64_t *value)
{
	if (!is_number(word, false))
		return false;
	errno = 0;
	*value = strtoull(word, NULL, 10);
	return errno == 0 && *value <= most;
}

static bool read_real(const char *word, double *value)
{
	char *end;

	if (!is_number(word, true))
		return false;
	*value = strtod(word, &end);
	return *end == '\0' && isfinite(*value);
}

static double value_of(const struct drive_params *params, const struct key *key)
{
	const char *field = (const char *)params + key->offset;
	uint64_t whole;
	uint32_t small;
	int64_t ns;
	double real;

	switch (key->kind) {
	case U64:
		memcpy(&whole, field, sizeof(whole));
		return (double)whole;
	case U32:
		memcpy(&small, field, sizeof(small));
		return small;
	case NS:
		memcpy(&ns, field, sizeof(ns));
		return (double)ns;
	default:
		memcpy(&real, field, sizeof(real));
		return real;
	}
}

/* False: the word is no number of this kind. Ranges are drive_params_check()'s. */
static bool set_value(struct drive_params *params, const struct key *key, const char *word)
{
	char *field = (char *)params + key->offset;
	uint64_t whole;
	uint32_t small;
	int64_t ns;
	double real;

	if (key->kind == REAL) {
		if (!read_real(word, &real))
			return false;
		memcpy(field, &real, sizeof(real));
		return true;
	}
	if (!read_whole(word, key->kind == U32 ? UINT32_MAX : INT64_MAX, &whole))
		return false;
	if (key->kind == U64) {
		memcpy(field, &whole, sizeof(whole));
	} else if (key->kind == U32) {
		small = (uint32_t)whole;
		memcpy(field, &small, sizeof(small));
	} else {
		ns = (int64_t)whole;
		memcpy(field, &ns, sizeof(ns));
	}
	return true;
}

static int fault(char error[DRIVE_ERROR_BYTES], const char *name, const char *what)
{
	snprintf(error, DRIVE_ERROR_BYTES, "%.40s %.180s", name, what);
	return -1;
}

static int check_tables(const struct drive_params *params, char error[DRIVE_ERROR_BYTES])
{
	uint64_t sectors = 0;
	uint32_t cylinder = 0;

	if (params->zone_count < 1 || params->zone_count > DRIVE_MOST_ZONES)
		return fault(error, "zone",
			     "is there for no or too many zones: give 1 to 64 lines");
	for (uint32_t i = 0; i < params->zone_count; i++) {
		const struct drive_zone *zone = &params->zones[i];

		if (zone->last_cylinder > MOST_CYLINDER || (i && zone->last_cylinder < cylinder))
			return fault(error, "zone", "does not end beyond the zone before it");
		if (zone->sectors_per_track < LEAST_TRACK || zone->sectors_per_track > MOST_TRACK)
			return fault(error, "zone",
				     "has tracks of less than 16 or more than 65535 sectors");
		sectors += (uint64_t)(zone->last_cylinder + 1 - cylinder) * params->surfaces *
			   zone->sectors_per_track;
		cylinder = zone->last_cylinder + 1;
	}
	if (params->first_sector + params->sectors > sectors) {
		snprintf(
			error, DRIVE_ERROR_BYTES,
			"sectors from %llu on are %llu, which the zones do not hold: they end at %llu",
			(unsigned long long)params->first_sector,
			(unsigned long long)params->sectors, (unsigned long long)sectors);
		return -1;
	}
	if (params->seek_count < 1 || params->seek_count > DRIVE_MOST_SEEKS)
		return fault(error, "seek",
			     "is there for no or too many distances: give 1 to 256 lines");
	for (uint32_t i = 0; i < params->seek_count; i++) {
		const struct drive_seek *seek = &params->seeks[i];

		if (seek->cylinders > MOST_CYLINDER ||
		    seek->cylinders <= (i ? params->seeks[i - 1].cylinders : 0))
			return fault(error, "seek",
				     "has a distance that is not above the one before it");
		if (seek->ns < 0 || (double)seek->ns > LONG_NS)
			return fault(error, "seek", "takes longer than 10 s");
	}
	return 0;
}

int drive_params_check(const struct drive_params *params, char error[DRIVE_ERROR_BYTES])
{
	for (size_t i = 0; i < KEYS; i++) {
		double value = value_of(params, &keys[i]);

		if (!(value >= keys[i].least && value <= keys[i].most)) {
			snprintf(error, DRIVE_ERROR_BYTES, "%s is %g: from %g to %g", keys[i].name,
				 value, keys[i].least, keys[i].most);
			return -1;
		}
	}
	if ((unsigned int)params->scheduling > DRIVE_SPTF)
		return fault(error, "scheduling", "is none of fifo, sstf, sptf");
	if (params->write_cache_bytes &&
	    (params->write_cache_bytes < 4096 || params->write_cache_extents < 1))
		return fault(error, "write_cache_bytes",
			     "is a cache without room: at least 4096 and an extent");
	if (params->read_segments && params->segment_sectors < 8)
		return fault(error, "segment_sectors", "is below 8: give more, or read_segments 0");
	return check_tables(params, error);
}

/* One line's words, of which there are count. NULL, or what is wrong with them. */
static const char *take_line(struct drive_params *params, bool seen[KEYS + 1], char *words[3],
			     unsigned int count)
{
	uint64_t first, second;

	if (!strcmp(words[0], "zone") || !strcmp(words[0], "seek")) {
		bool zone = words[0][0] == 'z';

		if (count != 3 || !read_whole(words[1], UINT32_MAX, &first) ||
		    !read_whole(words[2], zone ? UINT32_MAX : INT64_MAX, &second))
			return "is followed by something else than two whole numbers";
		if (zone && params->zone_count == DRIVE_MOST_ZONES)
			return "is there more than 64 times";
		if (zone)
			params->zones[params->zone_count++] =
				(struct drive_zone){ (uint32_t)first, (uint32_t)second };
		else if (params->seek_count == DRIVE_MOST_SEEKS)
			return "is there more than 256 times";
		else
			params->seeks[params->seek_count++] =
				(struct drive_seek){ (uint32_t)first, (int64_t)second };
		return NULL;
	}
	if (!strcmp(words[0], "scheduling")) {
		if (seen[KEYS])
			return "is there twice";
		seen[KEYS] = true;
		for (unsigned int i = 0; count == 2 && i <= DRIVE_SPTF; i++) {
			if (!strcmp(words[1], scheduling_names[i])) {
				params->scheduling = (enum drive_scheduling)i;
				return NULL;
			}
		}
		return "is none of fifo, sstf, sptf";
	}
	for (size_t i = 0; i < KEYS; i++) {
		if (strcmp(words[0], keys[i].name) != 0)
			continue;
		if (seen[i])
			return "is there twice";
		seen[i] = true;
		if (count != 2 || !set_value(params, &keys[i], words[1]))
			return "is followed by something else than one number";
		return NULL;
	}
	return "is no parameter of a drive";
}

/* Splits at single or more spaces; a fourth word makes count 4. */
static unsigned int split(char *line, char *words[3])
{
	unsigned int count = 0;
	char *rest = NULL;

	for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		if (count == 3)
			return 4;
		words[count++] = word;
	}
	return count;
}

/* What the terminal of whoever reads the message must not interpret. */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}

int drive_params_read(FILE *text, struct drive_params *params, char error[DRIVE_ERROR_BYTES])
{
	bool seen[KEYS + 1] = { false };
	char line[LINE_BYTES];

	memset(params, 0, sizeof(*params));
	while (fgets(line, sizeof(line), text)) {
		char *words[3] = { "", "", "" };
		size_t length = strlen(line);
		unsigned int count;
		const char *what;

		if (length == 0 || line[length - 1] != '\n')
			return fault(error, "text",
				     "has a line of 255 or more bytes, or one without its end");
		line[length - 1] = '\0';
		make_printable(line);
		count = split(line, words);
		if (count == 0 || words[0][0] == '#')
			continue;
		what = take_line(params, seen, words, count);
		if (what)
			return fault(error, words[0], what);
	}
	if (ferror(text))
		return fault(error, "text", "is not readable");
	for (size_t i = 0; i <= KEYS; i++) {
		if (!seen[i] && !(i < KEYS && keys[i].is_optional))
			return fault(error, i < KEYS ? keys[i].name : "scheduling", "is missing");
	}
	return drive_params_check(params, error);
}
