// SPDX-License-Identifier: BSD-2-Clause
/* A generator's command line. A wrong option ends the program (fail.h); so does --help, after printing the usage. */
#ifndef GENERATORS_OPTIONS_H
#define GENERATORS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An option, -LETTER or --NAME, and the variable it sets: number, text or flag. A flag takes no value. An option with
 * act takes no value either: act() is called at once, and the program ends.
 */
struct choice {
	char letter; /* 0: the option has a name */
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
	uint64_t *
		seed; /* -s, else $SEEKMETER_SEED, else 1; NULL: the generator draws no random numbers */
};

/* Parses the options. A variable keeps its value if its option is not given. */
void parse_options(const struct generator *generator, const struct choice *choices, size_t count,
		   int argc, char **argv);

/* The arguments after "--", for the program that the generator runs. */
struct passed_on {
	char **argv;
	int count;
};

/* The same for a generator that passes the arguments after "--" on. */
void parse_options_before(struct passed_on *passed_on, const struct generator *generator,
			  const struct choice *choices, size_t count, int argc, char **argv);

#endif
