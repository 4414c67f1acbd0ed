/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Page faults of the workload on mapped files, counted like calls; part of calls.bpf.c.
 *
 * fault_read: a major fault: the page had to be read, or was being read. fault_write: a fault that made a clean page
 * dirty, whether it was read first or not. Not counted: minor faults that only map a page of the page cache; a store to
 * another page of a folio that is dirty already; faults inside a system call on a file, which are the call's; DAX.
 *
 *   begin   mm_filemap_fault, or before that page_fault_user (x86) once the workload has a shared mapping of a file. On
 *           kernels without mm_filemap_fault (6.1): the first page that the fault adds to the page cache
 *   end     of a major fault its end (a software event of perf), of another one the moment when the page is dirty:
 *           throttling of dirty pages comes after that
 *
 * A task's counts of faults move when a fault ends, and not when it is tried again: they tell one fault from the next.
 */
#ifndef SEEKMETER_CALL_FAULTS_H
#define SEEKMETER_CALL_FAULTS_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/mm_types.h: since Linux kernel commit 7b230db3b8d3 ("mm: Introduce struct folio") (in v5.16); before, struct page is alike */
struct folio {
	struct address_space *mapping;
};

#pragma clang attribute pop

/* Of the current task, for a fault outside its calls; NULL: it is in a call, or not in the workload. */
static __always_inline struct open_call *call_for_fault(void)
{
	struct open_call *open = find_open_call();

	if (!open && in_workload())
		open = begin_open_call();
	return open && open->state == CALL_CLOSED ? open : NULL;
}

static __always_inline bool is_same_fault(const struct open_call *open, u32 number)
{
	return open->fault_begin_ns && open->fault_number == number;
}

static __always_inline void begin_fault(struct open_call *open, u32 number)
{
	open->fault_number = number;
	open->fault_tries = 0;
	open->fault_file = FAULT_FILE_UNKNOWN;
	open->fault_begin_ns = bpf_ktime_get_ns();
}

/* Tells the other collectors' programs that the task is in a fault. */
static __always_inline void note_fault(struct task_struct *task, u32 number, enum call_name name,
				       enum call_target target)
{
	struct task_context *context = have_task_contexts ? make_context(task) : NULL;

	if (!context)
		return;
	context->fault_number = number;
	context->fault = name + 1;
	context->fault_target = target;
	context->in_workload = true;
}

/* The fault is one of this file's. */
static __always_inline void note_fault_file(struct address_space *mapping, bool is_try)
{
	struct open_call *open = call_for_fault();
	struct task_struct *task;
	u32 number;

	if (!open)
		return;
	task = bpf_get_current_task_btf();
	number = faults_of(task);
	if (!is_same_fault(open, number))
		begin_fault(open, number);
	if (open->fault_file != FAULT_FILE_UNKNOWN) {
		open->fault_tries += is_try;
		return;
	}
	open->fault_file = FAULT_FILE_READ;
	open->fault_target = target_of(BPF_CORE_READ(mapping, host, i_sb));
	note_fault(task, number, CALL_FAULT_READ, open->fault_target);
}

static __always_inline void add_fault(struct open_call *open, struct call_counts *count,
				      enum call_name name)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];
	u64 begin_ns = open->fault_begin_ns;
	u32 target = open->fault_target;

	open->fault_begin_ns = 0;
	__sync_fetch_and_add(&epoch->inside, 1);
	if (add(begin_ns, name, target, bpf_ktime_get_ns(), 0, 0, false))
		__sync_fetch_and_add(&count->faults_counted, 1);
	else
		__sync_fetch_and_add(&count->faults_late, 1);
	__sync_fetch_and_add(&epoch->inside, -1);
}

/* since "mm/filemap: add trace events for get_pages, map_pages, and fault" (2024; 6.12 has it) */
SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(filemap_fault, struct address_space *mapping)
{
	note_fault_file(mapping, true);
	return 0;
}

/* Where the kernel lacks that. */
SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_added, struct folio *folio)
{
	note_fault_file(BPF_CORE_READ(folio, mapping), false);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault)
{
	struct open_call *open;

	if (!maps_shared)
		return 0;
	open = call_for_fault();
	if (open)
		begin_fault(open, faults_of(bpf_get_current_task_btf()));
	return 0;
}

/* A major fault has ended. */
SEC("perf_event")
int major_fault(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct open_call *open = find_open_call();
	struct call_counts *count;
	u32 zero = 0;

	if (is_over || !open || open->state != CALL_CLOSED)
		return 0;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	if (open->fault_number != faults_of(task) - 1)
		__sync_fetch_and_add(&count->faults_unseen, 1);
	else if (!open->fault_begin_ns) /* counted when its page was dirty */
		return 0;
	else if (open->fault_file == FAULT_FILE_UNKNOWN)
		__sync_fetch_and_add(&count->faults_unseen, 1);
	else
		add_fault(open, count,
			  open->fault_file == FAULT_FILE_WRITTEN ? CALL_FAULT_WRITE
								 : CALL_FAULT_READ);
	return 0;
}

/* A clean page becomes dirty: by a store, if in a fault. Metadata that the fault changes is no file's. */
static __always_inline int dirtied(struct address_space *mapping)
{
	struct call_counts *count;
	struct task_struct *task;
	struct open_call *open;
	struct inode *inode;
	u32 number, zero = 0;

	if (is_over || !maps_shared || !mapping)
		return 0;
	open = find_open_call();
	if (!open || open->state != CALL_CLOSED)
		return 0;
	task = bpf_get_current_task_btf();
	number = faults_of(task);
	if (!is_same_fault(open, number))
		return 0;
	inode = mapping->host;
	if (!inode || (inode->i_mode & S_IFMT) != S_IFREG)
		return 0;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	open->fault_file = FAULT_FILE_WRITTEN;
	open->fault_target = target_of(inode->i_sb);
	note_fault(task, number, CALL_FAULT_WRITE, open->fault_target);
	/* One that was tried again is a major fault, whose end is seen. */
	if (!open->fault_tries)
		add_fault(open, count, CALL_FAULT_WRITE);
	return 0;
}

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(folio_dirtied, void *folio, struct address_space *mapping)
{
	return dirtied(mapping);
}

/*
 * before Linux kernel commit b9b0ff61eef5 ("mm/writeback: Convert tracing writeback_page_template to folios") (in
 * v5.16)
 */
SEC("tp_btf/writeback_dirty_page")
int BPF_PROG(page_dirtied, void *page, struct address_space *mapping)
{
	return dirtied(mapping);
}

#endif
