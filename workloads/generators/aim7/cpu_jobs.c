// SPDX-License-Identifier: BSD-2-Clause
/* aim7's CPU jobs: arithmetic, sorting, memory and brk. A unit takes 20 to 400 microseconds on a CPU of 2025. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "jobs.h"

#define ROUNDS	     20000
#define SORTED	     1500
#define MATRIX	     40
#define SIEVE	     20000
#define PRIMES_BELOW 2262 /* 20000 */
#define MEMORY_BYTES (1024 * 1024)
#define PAGE_BYTES   4096

enum { ADD, MULTIPLY, DIVIDE };

static void fail_wrong_result(const char *job)
{
	fail(EXIT_RUN_FAILED, "aim7: the job %s has a wrong result; the machine miscalculates",
	     job);
}

/* Defines the job NAME: ROUNDS additions, multiplications or divisions of TYPE per unit, with volatile operands. */
#define ARITHMETIC(NAME, TYPE)                                                      \
	static void NAME(struct task *task, unsigned int units, int variant)        \
	{                                                                           \
		volatile TYPE operand = (TYPE)(3 + (task->number & 1));             \
		volatile TYPE result = 1;                                           \
                                                                                    \
		for (unsigned long i = 0; i < (unsigned long)units * ROUNDS; i++) { \
			TYPE value = result;                                        \
                                                                                    \
			if (variant == ADD)                                         \
				value = (TYPE)(value + operand);                    \
			else if (variant == MULTIPLY)                               \
				value = (TYPE)(value * operand);                    \
			else                                                        \
				value = (TYPE)((value + 100) / operand);            \
			result = value > 100 ? (TYPE)1 : value;                     \
		}                                                                   \
	}

ARITHMETIC(on_short, unsigned short)
ARITHMETIC(on_int, unsigned int)
ARITHMETIC(on_long, unsigned long)
ARITHMETIC(on_float, float)
ARITHMETIC(on_double, double)

static void sieve(struct task *task, unsigned int units, int variant)
{
	static unsigned char composite[SIEVE];

	(void)task;
	(void)variant;
	while (units-- > 0) {
		unsigned int primes = 0;

		memset(composite, 0, sizeof(composite));
		for (unsigned int i = 2; i < SIEVE; i++) {
			if (composite[i])
				continue;
			primes++;
			for (unsigned int j = 2 * i; j < SIEVE; j += i)
				composite[j] = 1;
		}
		if (primes != PRIMES_BELOW)
			fail_wrong_result("sieve");
	}
}

static void trigonometry(struct task *task, unsigned int units, int variant)
{
	(void)variant;
	for (unsigned long i = 0; i < (unsigned long)units * ROUNDS / 10; i++) {
		double x = (double)rng_below(&task->rng, 1000) / 100;
		double sum = sin(x) * sin(x) + cos(x) * cos(x);

		if (fabs(sum - 1) > 1e-9)
			fail_wrong_result("trigonometry");
	}
}

/* Computes e as the sum of 1/n!. */
static void series(struct task *task, unsigned int units, int variant)
{
	(void)task;
	(void)variant;
	for (unsigned long i = 0; i < (unsigned long)units * ROUNDS / 20; i++) {
		volatile double sum = 1;
		double term = 1;

		for (int n = 1; n < 20; n++)
			sum += term /= n;
		if (fabs(sum - M_E) > 1e-12)
			fail_wrong_result("series");
	}
}

/* Multiplies a random matrix by the matrix with 2 on its diagonal. */
static void matrix(struct task *task, unsigned int units, int variant)
{
	static double a[MATRIX][MATRIX];
	static double c[MATRIX][MATRIX];

	(void)variant;
	for (int i = 0; i < MATRIX; i++)
		for (int j = 0; j < MATRIX; j++)
			a[i][j] = (double)rng_below(&task->rng, 1000);
	while (units-- > 0) {
		for (int i = 0; i < MATRIX; i++)
			for (int j = 0; j < MATRIX; j++) {
				c[i][j] = 0;
				for (int k = 0; k < MATRIX; k++)
					c[i][j] += a[i][k] * (k == j ? 2 : 0);
			}
		if (c[7][5] != 2 * a[7][5])
			fail_wrong_result("matrix");
	}
}

static int by_value(const void *left, const void *right)
{
	unsigned int a = *(const unsigned int *)left;
	unsigned int b = *(const unsigned int *)right;

	return (a > b) - (a < b);
}

static int by_name(const void *left, const void *right)
{
	return memcmp(left, right, sizeof(unsigned int));
}

static void sort(struct task *task, unsigned int units, int variant)
{
	unsigned int values[SORTED];

	while (units-- > 0) {
		for (int i = 0; i < SORTED; i++)
			values[i] = (unsigned int)rng_next(&task->rng);
		qsort(values, SORTED, sizeof(values[0]), variant ? by_name : by_value);
		for (int i = 1; i < SORTED; i++)
			if ((variant ? by_name : by_value)(&values[i - 1], &values[i]) > 0)
				fail_wrong_result("sort");
	}
}

static void strings(struct task *task, unsigned int units, int variant)
{
	char text[2048];

	(void)variant;
	for (unsigned long i = 0; i < (unsigned long)units * 100; i++) {
		size_t length = 1 + rng_below(&task->rng, sizeof(text) - 2);

		memset(text, 'a', length);
		text[length] = '\0';
		text[length - 1] = 'z';
		if (strlen(text) != length || strchr(text, 'z') != text + length - 1 ||
		    strstr(text, "z") != text + length - 1)
			fail_wrong_result("strings");
	}
}

static void memory_copy(struct task *task, unsigned int units, int variant)
{
	char *from = must_alloc(malloc(MEMORY_BYTES + 1));
	char *to = must_alloc(malloc(MEMORY_BYTES + 1));

	memset(from, (int)(task->number & 0x7f) + 1, MEMORY_BYTES + 1);
	memset(to, 0, MEMORY_BYTES + 1);
	while (units-- > 0) {
		if (variant)
			memmove(from + 1, from, MEMORY_BYTES);
		memcpy(to, from, MEMORY_BYTES);
		if (to[MEMORY_BYTES - 1] != (char)((task->number & 0x7f) + 1))
			fail_wrong_result("memory copy");
	}
	free(from);
	free(to);
}

/* Follows a chain of indexes through memory: each word has the index of the next one. */
static void memory_random(struct task *task, unsigned int units, int variant)
{
	uint32_t words = MEMORY_BYTES / sizeof(uint32_t);
	uint32_t *next = must_alloc(malloc(MEMORY_BYTES));
	uint32_t at = 0;

	(void)variant;
	for (uint32_t i = 0; i < words; i++) /* 5 has no factor with a power of two: one ring */
		next[i] = (i * 5 + 12345) % words;
	for (unsigned long i = 0; i < (unsigned long)units * ROUNDS; i++)
		at = next[at];
	if (at >= words)
		fail_wrong_result("memory random");
	(void)task;
	free(next);
}

static void map_pages(struct task *task, unsigned int units, int variant)
{
	(void)task;
	(void)variant;
	while (units-- > 0) {
		char *pages = mmap(NULL, MEMORY_BYTES / 4, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (pages == MAP_FAILED)
			fail_errno("cannot be mapped", "memory");
		for (int i = 0; i < MEMORY_BYTES / 4; i += PAGE_BYTES)
			pages[i]++;
		if (munmap(pages, MEMORY_BYTES / 4) != 0)
			fail_errno("cannot be unmapped", "memory");
	}
}

/* Grows and shrinks the heap. No other code of this process may move the program break meanwhile. */
static void grow_heap(struct task *task, unsigned int units, int variant)
{
	(void)task;
	(void)variant;
	while (units-- > 0) {
		char *end = sbrk(16 * PAGE_BYTES);

		if (end == (void *)-1)
			fail_errno("cannot be extended (brk)", "memory");
		for (int i = 0; i < 16 * PAGE_BYTES; i += PAGE_BYTES)
			end[i] = 1;
		if (sbrk(-16 * PAGE_BYTES) == (void *)-1)
			fail_errno("cannot be released (brk)", "memory");
	}
}

const struct job cpu_jobs[] = {
	{ "add_short", on_short, ADD },
	{ "add_int", on_int, ADD },
	{ "add_long", on_long, ADD },
	{ "mul_short", on_short, MULTIPLY },
	{ "mul_int", on_int, MULTIPLY },
	{ "mul_long", on_long, MULTIPLY },
	{ "div_short", on_short, DIVIDE },
	{ "div_int", on_int, DIVIDE },
	{ "div_long", on_long, DIVIDE },
	{ "add_float", on_float, ADD },
	{ "mul_float", on_float, MULTIPLY },
	{ "div_float", on_float, DIVIDE },
	{ "add_double", on_double, ADD },
	{ "mul_double", on_double, MULTIPLY },
	{ "div_double", on_double, DIVIDE },
	{ "sieve", sieve, 0 },
	{ "trigonometry", trigonometry, 0 },
	{ "series", series, 0 },
	{ "matrix", matrix, 0 },
	{ "sort_numbers", sort, 0 },
	{ "sort_names", sort, 1 },
	{ "strings", strings, 0 },
	{ "memory_copy", memory_copy, 0 },
	{ "memory_move", memory_copy, 1 },
	{ "memory_random", memory_random, 0 },
	{ "map_pages", map_pages, 0 },
	{ "brk", grow_heap, 0 },
	{ NULL, NULL, 0 },
};
