// SPDX-License-Identifier: BSD-2-Clause
/*
 * All generators as one program, for a bundle (collectors/bundle/bundle.sh): statically linked one by one they
 * would be four times as large. The name that the program is started by, or its first argument, chooses.
 */
#include <stdio.h>
#include <string.h>

/* GENERATOR_LIST: a file with GENERATOR(name) for each, that bundle.sh writes. */
#define GENERATOR(name) int name##_main(int argc, char **argv);
#include GENERATOR_LIST
#undef GENERATOR

struct generator {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct generator generators[] = {
#define GENERATOR(name) { #name, name##_main },
#include GENERATOR_LIST
#undef GENERATOR
};

#define GENERATOR_COUNT (sizeof(generators) / sizeof(generators[0]))

static const struct generator *named(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < GENERATOR_COUNT; i++) {
		if (strcmp(generators[i].name, name) == 0)
			return &generators[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct generator *generator = argc > 0 ? named(argv[0]) : NULL;

	if (generator)
		return generator->run(argc, argv);
	generator = argc > 1 ? named(argv[1]) : NULL;
	if (generator)
		return generator->run(argc - 1, argv + 1);
	fputs("generators: name one of them first:", stderr);
	for (size_t i = 0; i < GENERATOR_COUNT; i++)
		fprintf(stderr, " %s", generators[i].name);
	fputc('\n', stderr);
	return 2;
}
