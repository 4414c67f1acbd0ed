/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stack that a thread goes to sleep with, at a tenth of the cost of walking it. Part of threads.bpf.c.
 *
 * A walk takes more than a microsecond. But threads sleep with few stacks, again and again. A walked stack is kept with the
 * place of each return address on it, counted from the tracepoint's arguments, which lie on the same stack. The next
 * sleep compares the words at these places. If all are equal, it is the same stack: the return address of a frame
 * decides the frame's size, and so the place of the next one. Only below the entry of a system call a frame has a random size
 * (CONFIG_RANDOMIZE_KSTACK_OFFSET), so the outermost address is not compared: the one before decides it.
 *
 * Each CPU has known stacks of its own: no lock. They lie in sets, by the caller of schedule() and the system call.
 */
#ifndef SEEKMETER_THREAD_STACKS_H
#define SEEKMETER_THREAD_STACKS_H

#include "thread_state.h"

#define STACKS	      16384
#define STACK_SETS    512 /* a power of two */
#define STACK_WAYS    4
#define STACK_WORDS   1024 /* of a stack that are searched for return addresses */
#define OWN_FRAMES    8	   /* at most, of the tracing */
#define STACK_ID_BITS 0x3fffffff

/* Set before loading. The text of __schedule() and schedule(); 0: not known, then each stack is walked. */
const volatile u64 inner_schedule_begin, inner_schedule_end;
const volatile u64 schedule_begin, schedule_end;
const volatile bool have_rdonly_cast; /* the kernel has bpf_rdonly_cast() */

/* Where the return address into schedule()'s caller lies, in words from the arguments; 0: not known yet. */
volatile u32 caller_at;

struct known_stack {
	u32 words; /* compared; 0: nothing is known here */
	s32 id;
	u16 at[THREAD_STACK_FRAMES];
	u64 word[THREAD_STACK_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_SETS *STACK_WAYS);
	__type(key, u32);
	__type(value, struct known_stack);
} known_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STACKS);
	__type(key, s32);
	__type(value, struct thread_stack);
} stacks SEC(".maps");

struct stack_scratch {
	u64 arguments; /* address of the tracepoint's arguments */
	u64 bottom;    /* of the stack */
	u32 next;      /* frame that is searched for */
	u32 victim;    /* the way to be overwritten next */
	u64 frames;    /* of the stack */
	struct thread_stack stack;
	u64 words[STACK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_scratch);
} stack_scratch SEC(".maps");

/* linux/rbtree_types.h: any type that begins with a number, to read one. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct rb_node {
	unsigned long __rb_parent_color;
};
#pragma clang attribute pop

extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

/* One load: Linux kernel commit a35b9af4ec2c ("bpf: Add a kfunc for generic type cast") (in v6.2). */
static __always_inline u64 load_word(u64 address)
{
	struct rb_node *node =
		bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct rb_node));

	return node->__rb_parent_color;
}

static __always_inline u64 read_word(u64 address)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

/*
 * Two loops: the verifier of 6.1 takes a loop for an endless one if it contains a call right behind which two ways join. It
 * looks at both loops, whichever is taken.
 */
static __noinline int is_stack(const struct known_stack *known, u64 from)
{
	u32 words = known->words;

	if (!words)
		return 0;
	if (have_rdonly_cast) {
		for (u32 i = 0; i < THREAD_STACK_FRAMES && i < words; i++)
			if (load_word(from + 8 * known->at[i]) != known->word[i])
				return 0;
	} else {
		for (u32 i = 0; i < THREAD_STACK_FRAMES && i < words; i++)
			if (read_word(from + 8 * known->at[i]) != known->word[i])
				return 0;
	}
	return 1;
}

/* Keeps the scratch's frames in the map; their key there, or -1. */
static __always_inline s32 keep_stack(struct thread_stack *stack)
{
	u64 hash = 14695981039346656037ULL;
	struct thread_stack *kept;
	s32 id;

	for (int i = 0; i < THREAD_STACK_FRAMES; i++)
		hash = (hash ^ stack->frames[i]) * 1099511628211ULL;
	hash ^= hash >> 32;
	stack->hash = hash;
	id = hash & STACK_ID_BITS;
	kept = bpf_map_lookup_elem(&stacks, &id);
	if (kept)
		return kept->hash == hash ? id : -1;
	return bpf_map_update_elem(&stacks, &id, stack, BPF_ANY) ? -1 : id;
}

/* Finds the frames from `first` on among the scratch's words, and notes their places. Returns how many frames it found. */
__noinline int find_frames(u32 at, u32 first, u32 words)
{
	u32 zero = 0;
	struct stack_scratch *scratch = bpf_map_lookup_elem(&stack_scratch, &zero);
	struct known_stack *known = bpf_map_lookup_elem(&known_stacks, &at);

	if (!scratch || !known)
		return 0;
	*(volatile u32 *)&scratch->next = first;
	for (u32 i = 0; i < STACK_WORDS; i++) {
		u32 next = *(volatile u32 *)&scratch->next, k = next - first;

		if (i >= words || next >= THREAD_STACK_FRAMES || k >= THREAD_STACK_FRAMES)
			break;
		if (scratch->words[i] != scratch->stack.frames[next] || !scratch->words[i])
			continue;
		known->at[k] = i;
		known->word[k] = scratch->words[i];
		*(volatile u32 *)&scratch->next = next + 1;
	}
	return scratch->next - first;
}

/* The frame of __schedule(), behind those of the tracing; OWN_FRAMES: there is none. */
__noinline int first_frame(void)
{
	u32 zero = 0;
	struct stack_scratch *scratch = bpf_map_lookup_elem(&stack_scratch, &zero);

	if (!scratch)
		return OWN_FRAMES;
	for (u32 i = 0; i < OWN_FRAMES; i++) {
		u64 frame = scratch->stack.frames[i];

		if (frame >= inner_schedule_begin && frame < inner_schedule_end)
			return i;
	}
	return OWN_FRAMES;
}

/*
 * Keeps the scratch's stack in the map, and learns where its return addresses lie. Returns its key, or -1. Not static, as
 * the one above: the verifier checks such a function once, not for each way that leads to it.
 */
__noinline int learn_stack(u32 at)
{
	u32 zero = 0, first, frames, found;
	struct stack_scratch *scratch = bpf_map_lookup_elem(&stack_scratch, &zero);
	struct known_stack *known = bpf_map_lookup_elem(&known_stacks, &at);
	struct thread_counts *count = counts_here();
	u64 bytes, frame;

	if (!scratch || !known || !count)
		return -1;
	known->words = 0;
	known->id = keep_stack(&scratch->stack);
	if (known->id < 0) {
		count->stacks_lost++;
		return -1;
	}
	frames = scratch->frames;
	first = first_frame();
	if (first >= OWN_FRAMES || frames < first + 3)
		return known->id;
	bytes = scratch->bottom + KERNEL_STACK_BYTES - scratch->arguments;
	if (bytes > sizeof(scratch->words))
		bytes = sizeof(scratch->words);
	if (bpf_probe_read_kernel(scratch->words, bytes, (void *)scratch->arguments))
		return known->id;
	found = find_frames(at, first, bytes / 8);
	frames -= first;
	/* The outermost address is not compared, unless the stack is cut off there. */
	if (frames + first < THREAD_STACK_FRAMES)
		frames--;
	if (found < frames || frames > THREAD_STACK_FRAMES)
		return known->id;
	frame = scratch->stack.frames[first + 1];
	if (!caller_at && frame >= schedule_begin && frame < schedule_end)
		caller_at = known->at[2];
	known->words = frames;
	count->stacks_learnt++;
	return known->id;
}

static __noinline int walk_stack(void *ctx, struct stack_scratch *scratch, u32 set,
				 struct thread_counts *count)
{
	u32 way = scratch->victim++ % STACK_WAYS;
	long bytes;

	count->stacks_walked++;
	__builtin_memset(&scratch->stack, 0, sizeof(scratch->stack));
	bytes = bpf_get_stack(ctx, scratch->stack.frames, sizeof(scratch->stack.frames), 0);
	if (bytes <= 0) {
		count->stacks_lost++;
		return -1;
	}
	scratch->frames = bytes / sizeof(u64);
	return learn_stack((set % STACK_SETS) * STACK_WAYS + way);
}

static __always_inline u32 set_of(u64 from, struct task_struct *task, u32 flags)
{
	u64 caller = 0, call = 0;

	if (caller_at)
		caller = have_rdonly_cast ? load_word(from + 8 * caller_at)
					  : read_word(from + 8 * caller_at);

#if defined(__TARGET_ARCH_x86)
	/* A user thread's registers, its system call among them, lie at the end of its stack. */
	if (!(flags & PF_KTHREAD))
		call = ((struct pt_regs *)bpf_task_pt_regs(task))->orig_ax;
#endif
	return ((caller ^ call * 31) * 0x9E3779B97F4A7C15ULL >> 40) % STACK_SETS;
}

/* The stack of the current task, which is about to leave its CPU: its key in the map, or -1. */
static __always_inline s32 stack_of_sleep(void *ctx, struct task_struct *task, u32 flags,
					  struct thread_counts *count)
{
	u32 zero = 0, set;
	struct stack_scratch *scratch = bpf_map_lookup_elem(&stack_scratch, &zero);
	u64 from;

	if (!scratch)
		return -1;
	/* Through memory, as the verifier allows no arithmetic on the pointers themselves. */
	*(volatile u64 *)&scratch->arguments = (u64)ctx;
	*(volatile u64 *)&scratch->bottom = (u64)task->stack;
	from = *(volatile u64 *)&scratch->arguments;
	set = set_of(from, task, flags);
	for (u32 way = 0; way < STACK_WAYS; way++) {
		u32 at = set * STACK_WAYS + way;
		struct known_stack *known = bpf_map_lookup_elem(&known_stacks, &at);

		if (known && is_stack(known, from)) {
			count->stacks_known++;
			return known->id;
		}
	}
	return walk_stack(ctx, scratch, set, count);
}

#endif
