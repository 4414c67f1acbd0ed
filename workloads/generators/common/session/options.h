// SPDX-License-Identifier: BSD-2-Clause
/* A generator's command line. A wrong word ends the program (fail.h), --help after it has printed the usage. */
#ifndef GENERATORS_OPTIONS_H
#define GENERATORS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * -LETTER or --NAME, and the one of number, text and flag that it sets. A flag takes no value; nor does an act, which is
 * done at once, and then the program is over.
 */
struct choice {
	char letter; /* 0: it has a name */
	const char *name;
	uint64_t *number;
	uint64_t min, max;
	const char **text;
	bool *flag;
	void (*act)(void);
};

#define CHOICES_MAX 16
#define CHOICES(of) (of), sizeof(of) / sizeof((of)[0])

struct generator {
	const char *name;
	void (*usage)(void);
	const char **dir; /* -D, else $SEEKMETER_DIR; there must be one */
	uint64_t *seed;	  /* -s, else $SEEKMETER_SEED, else 1; NULL: nothing in it is random */
};

/* What no option sets keeps its value. */
void parse_options(const struct generator *generator, const struct choice *choices, size_t count,
		   int argc, char **argv);

/* What comes behind "--": words for another program. */
struct behind {
	char **words;
	int count;
};

/* The same for a program that passes them on. */
void parse_options_before(struct behind *behind, const struct generator *generator,
			  const struct choice *choices, size_t count, int argc, char **argv);

#endif
