// SPDX-License-Identifier: BSD-2-Clause
/* A generator's command line, by getopt_long(3); see options.h. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "common/stats/numbers.h"
#include "options.h"

#define NAMED \
	256 /* getopt_long() returns NAMED + index for an option without a letter; letters are below 256 */

static bool takes_value(const struct choice *choice)
{
	return choice->number != NULL || choice->text != NULL;
}

static void set_choice(const struct choice *choice)
{
	char option[] = { '-', choice->letter, '\0' };

	if (choice->act != NULL) {
		choice->act();
		exit(0);
	}
	if (choice->number != NULL)
		*choice->number = parse_number(option, optarg, choice->min, choice->max);
	else if (choice->text != NULL)
		*choice->text = optarg;
	else
		*choice->flag = true;
}

/* Translates the choices into getopt_long()'s short and long options. */
static void describe(const struct choice *choices, size_t count, char *letters,
		     struct option *names)
{
	*letters++ = '+'; /* parsing stops at the first argument that is not an option */
	*letters++ = ':';
	for (size_t i = 0; i < count; i++) {
		if (choices[i].letter != '\0') {
			*letters++ = choices[i].letter;
			if (takes_value(&choices[i]))
				*letters++ = ':';
		} else {
			*names++ = (struct option){
				.name = choices[i].name,
				.has_arg = takes_value(&choices[i]) ? required_argument
								    : no_argument,
				.val = NAMED + (int)i,
			};
		}
	}
}

/* Returns the index of the choice for getopt_long()'s return value. */
static size_t choice_index(const struct choice *choices, size_t count, int option)
{
	size_t i = 0;

	if (option >= NAMED)
		return (size_t)(option - NAMED);
	while (i < count && choices[i].letter != option)
		i++;
	return i;
}

void parse_options_before(struct passed_on *passed_on, const struct generator *generator,
			  const struct choice *own, size_t count, int argc, char **argv)
{
	struct choice choices[CHOICES_MAX + 3] = { 0 };
	char letters[2 * CHOICES_MAX + 8] = { 0 };
	struct option names[CHOICES_MAX + 2] = { 0 };
	int option;

	if (count > CHOICES_MAX)
		fail(EXIT_WRONG_WORDS, "%s: raise CHOICES_MAX in common/options.h",
		     generator->name);
	for (size_t i = 0; i < count; i++)
		choices[i] = own[i];
	choices[count++] = (struct choice){ .letter = 'D', .text = generator->dir };
	if (generator->seed != NULL) {
		choices[count++] = (struct choice){ .letter = 's',
						    .number = generator->seed,
						    .max = UINT64_MAX };
		*generator->seed = number_in_environment("SEEKMETER_SEED", 1, 0, UINT64_MAX);
	}
	choices[count++] = (struct choice){ .name = "help", .act = generator->usage };
	*generator->dir = getenv("SEEKMETER_DIR");
	describe(choices, count, letters, names);
	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, names, NULL)) != -1) {
		if (option == ':')
			fail(EXIT_WRONG_WORDS, "%s: %s needs a value; see --help", generator->name,
			     argv[optind - 1]);
		if (option == '?')
			fail(EXIT_WRONG_WORDS, "%s: unknown option %s; see --help", generator->name,
			     argv[optind - 1]);
		set_choice(&choices[choice_index(choices, count, option)]);
	}
	if (passed_on != NULL && strcmp(argv[optind - 1], "--") == 0)
		*passed_on = (struct passed_on){ argv + optind, argc - optind };
	else if (optind < argc)
		fail(EXIT_WRONG_WORDS, "%s: unknown argument %s; see --help", generator->name,
		     argv[optind]);
	if (*generator->dir == NULL || (*generator->dir)[0] == '\0')
		fail(EXIT_WRONG_WORDS, "%s: no directory; give one with -D DIR", generator->name);
}

void parse_options(const struct generator *generator, const struct choice *choices, size_t count,
		   int argc, char **argv)
{
	parse_options_before(NULL, generator, choices, count, argc, argv);
}
