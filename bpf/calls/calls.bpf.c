// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * File-system calls of the workload: number, bytes, errors and latency.
 *
 * System calls of the workload's cgroup, from enter to exit, summed in the kernel by call, target and time bin (the bin
 * in which the call ended), each with a latency histogram. The recorder fills in a table of system calls: which are
 * file-system calls, and which argument names the file.
 *
 * Only regular files, directories and symlinks count as files: calls on pipes, sockets, terminals, devices and
 * anonymous inodes are left out, and counted as such. Bytes are counted for regular files only. An interrupted call
 * that the kernel restarts counts as a call each time, never as an error. 32-bit calls are left out, and counted as
 * such.
 *
 * Asynchronous requests of io_uring and libaio are counted like calls, from submission to completion: call_queued.h.
 */
#include "common/kernel.h"

#define __VMLINUX_H__ /* kernel.h names the registers as the kernel does, and bpf_tracing.h asks for that */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/over.h"
#include "common/records.h"
#include "common/task_context.h"
#include "common/workload_cgroup.h"

#include "call_queued.h"

#define S_IFMT		      0170000
#define S_IFREG		      0100000
#define S_IFDIR		      0040000
#define S_IFLNK		      0120000
#define ANON_INODE_FS_MAGIC   0x09041934 /* since 6.16 such an inode looks like a regular file */
#define AT_FDCWD	      -100
#define O_APPEND	      02000
#define MAP_PRIVATE	      0x02
#define MAP_TYPE	      0x0f
#define MAP_ANONYMOUS	      0x20
#define TS_COMPAT	      2 /* arch/x86: thread_info.status */
#define X32_BIT		      0x40000000
/* include/linux/errno.h: results that the kernel turns into a restart or EINTR */
#define ERESTARTSYS	      512
#define ERESTART_RESTARTBLOCK 516
#define MAX_ERRNO	      4095
#define PATH_WORDS	      (CALL_PATH / 8)
#define OPEN_CALLS	      32768 /* threads in a call at once */
#define LAST_BUCKET	      (CALL_HIST - 1)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
const volatile bool have_task_storage;
const volatile bool have_more_targets; /* more_targets holds some */
/* The recorder's process id and pid namespace: left out where all processes are the workload. */
const volatile u32 recorder_tgid;
const volatile u64 recorder_pidns_dev, recorder_pidns_ino;
const volatile u32 target_path_bytes; /* its mount point; 0: absolute paths say nothing */
const volatile u64 target_path[PATH_WORDS];
const volatile struct call_entry table[CALL_TABLE];

TASK_CONTEXTS

/* Set by the recorder as it empties bins. */
volatile u64 drained_to;
/* The workload has had a shared mapping of a file: its stores may dirty pages. Until then call_faults.h looks for none. */
volatile bool maps_shared;
/* super_block.s_dev of the file system under test, which a new mount may change; 0: none. Set by the recorder. */
volatile u32 target_dev;
struct bin_epoch epochs[BIN_CPUS];
struct bin_cuts cuts;

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct call_record *call_record_used;

enum fault_file { FAULT_FILE_UNKNOWN, FAULT_FILE_READ, FAULT_FILE_WRITTEN } __attribute__((packed));
enum open_state { CALL_CLOSED, CALL_OPENED, CALL_LEFT_OUT, CALL_AWAITS_EVENTS };

struct open_call {
	u64 enter_ns;
	/*
	 * In the program's memory: pointers to the iocbs that io_submit() is given, or where io_getevents() puts
	 * events.
	 */
	u64 array;
	u32 items;  /* of the iocbs, how many are looked at */
	u32 missed; /* of these, how many could not be kept */
	u32 state;  /* enum open_state */
	enum call_how how;
	enum call_name name;
	enum call_target target;
	u8 moves_bytes; /* and the file is a regular one */
	u64 inside;	/* of a write: bytes that the file had behind the place where it began */

	/* The last page fault outside a call: call_faults.h. */
	enum fault_file fault_file;
	enum call_target fault_target;
	u8 fault_tries;
	u32 fault_number;   /* see faults_of() */
	u64 fault_begin_ns; /* 0: it is counted */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_call);
} open_calls SEC(".maps");

/* The same by thread id, for kernels without task storage for tracing; an entry lives from enter to exit. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPEN_CALLS);
	__type(key, u32);
	__type(value, struct open_call);
} open_calls_by_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: CPUs x CALL_BIN_SLOTS x CALL_NAMES x CALL_TARGETS */
	__type(key, u32);
	__type(value, struct call_cell);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct call_counts);
} counts SEC(".maps");

/* super_block.s_dev of file systems under test other than target_dev: a watched device may have many. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* resized */
	__type(key, u32);
	__type(value, u8);
} more_targets SEC(".maps");

/* The properties of a file that decide how a call counts. */
struct file_facts {
	bool ours; /* regular file, directory or symlink */
	bool regular;
	enum call_target target;
	struct file *file;
};

/* linux/bpf.h */
struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};

static __always_inline bool in_workload(void)
{
	struct bpf_pidns_info id;

	if (have_cgroup)
		return in_workload_cgroup();
	/* Fails for a task of another pid namespace. */
	return bpf_get_ns_current_pid_tgid(recorder_pidns_dev, recorder_pidns_ino, &id,
					   sizeof(id)) ||
	       id.tgid != recorder_tgid;
}

static __always_inline enum call_target target_of(struct super_block *sb)
{
	u32 dev = target_dev, of;

	if (!dev || !sb)
		return CALL_TARGET_UNKNOWN;
	of = BPF_CORE_READ(sb, s_dev);
	if (of == dev || (have_more_targets && bpf_map_lookup_elem(&more_targets, &of)))
		return CALL_TARGET_TARGET;
	return CALL_TARGET_ELSEWHERE;
}

/* Linux kernel commit 3ca1032ab7ab ("bpf: Implement get_current_task_btf and RET_PTR_TO_BTF_ID") (in v5.11) */
static __always_inline bool have_task_btf(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf);
}

/* The current task, its members to be read by BPF_CORE_READ(). */
static __always_inline struct task_struct *this_task(void)
{
	return have_task_btf() ? bpf_get_current_task_btf() : (void *)bpf_get_current_task();
}

/* NULL: no such open file. */
static __always_inline struct file *file_at(int fd)
{
	struct file *file = NULL, **files;
	struct fdtable *fdt;
	u32 max_fds;

	if (have_task_btf()) {
		fdt = bpf_get_current_task_btf()->files->fdt;
		max_fds = fdt->max_fds;
		files = fdt->fd;
	} else {
		fdt = BPF_CORE_READ(this_task(), files, fdt);
		max_fds = BPF_CORE_READ(fdt, max_fds);
		files = BPF_CORE_READ(fdt, fd);
	}
	if (fd < 0 || (u32)fd >= max_fds)
		return NULL;
	if (bpf_probe_read_kernel(&file, sizeof(file), files + fd))
		return NULL;
	return file;
}

static __always_inline struct file_facts facts_of_file(struct file *file)
{
	struct file_facts facts = { .ours = true, .target = CALL_TARGET_UNKNOWN };
	struct super_block *sb;
	struct inode *inode;
	u16 type;

	if (!file)
		return facts; /* a bad fd: a call all the same, and its error is counted */
	inode = BPF_CORE_READ(file, f_inode);
	type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	sb = BPF_CORE_READ(inode, i_sb);
	facts.regular = type == S_IFREG && BPF_CORE_READ(sb, s_magic) != ANON_INODE_FS_MAGIC;
	facts.ours = facts.regular || type == S_IFDIR || type == S_IFLNK;
	facts.target = target_of(sb);
	facts.file = file;
	return facts;
}

static __always_inline struct file_facts facts_of(int fd)
{
	return facts_of_file(file_at(fd));
}

/* Does this absolute path lie below the mount point under test? */
static __always_inline bool below_target(const char *path)
{
	u64 words[PATH_WORDS + 1] = { 0 };
	u32 bytes = target_path_bytes;
	char next = 0;

	if (!bytes || bytes > CALL_PATH || bpf_probe_read_user(words, bytes, path) ||
	    bpf_probe_read_user(&next, 1, path + bytes) || (next && next != '/'))
		return false;
	for (int i = 0; i < PATH_WORDS; i++)
		if (words[i] != target_path[i])
			return false;
	return true;
}

static __always_inline struct file_facts facts_of_path(const char *path, int dir)
{
	struct file_facts facts = { .ours = true, .target = CALL_TARGET_UNKNOWN };
	char first = 0;

	/* A null or empty path is the fd's own file (AT_EMPTY_PATH), or an error. */
	if (!path)
		return facts_of(dir);
	if (bpf_probe_read_user(&first, 1, path))
		return facts; /* not in memory yet */
	if (!first && dir != AT_FDCWD)
		return facts_of(dir);
	if (first == '/') {
		if (target_dev && below_target(path))
			facts.target = CALL_TARGET_TARGET;
		return facts;
	}
	if (dir == AT_FDCWD) {
		struct task_struct *task = this_task();

		facts.target = target_of(BPF_CORE_READ(task, fs, pwd.dentry, d_sb));
		return facts;
	}
	return facts_of(dir);
}

static __always_inline u64 argument(struct pt_regs *regs, u32 position)
{
	switch (position) {
	case 0:
		return PT_REGS_PARM1_SYSCALL(regs);
	case 1:
		return PT_REGS_PARM2_SYSCALL(regs);
	case 2:
		return PT_REGS_PARM3_SYSCALL(regs);
	case 3:
		return PT_REGS_PARM4_SYSCALL(regs);
	case 4:
		return PT_REGS_PARM5_SYSCALL(regs);
	}
	return 0;
}

static __always_inline struct file_facts facts_of_call(struct pt_regs *regs,
						       const volatile struct call_entry *entry)
{
	struct file_facts facts = { .ours = true, .target = CALL_TARGET_UNKNOWN };
	int fd = entry->fd_arg == CALL_NO_ARG ? AT_FDCWD : (int)argument(regs, entry->fd_arg);

	switch (entry->how) {
	case CALL_HOW_FD:
		return facts_of(fd);
	case CALL_HOW_PATH:
	case CALL_HOW_OPEN:
		return facts_of_path((const char *)argument(regs, entry->path_arg), fd);
	case CALL_HOW_COPY: {
		/* The file written to, or the one read when the other end is a pipe or socket. */
		struct file_facts from = facts_of(fd);

		facts = facts_of((int)argument(regs, entry->to_arg));
		if (facts.regular || !from.ours)
			return facts;
		return from;
	}
	case CALL_HOW_MMAP:
		if (argument(regs, 3) & MAP_ANONYMOUS)
			facts.ours = false;
		else
			facts = facts_of(fd);
		return facts;
	default:
		return facts;
	}
}

static __always_inline bool is_compat(long number)
{
#ifdef bpf_target_x86
	u32 status = have_task_btf() ? bpf_get_current_task_btf()->thread_info.status
				     : BPF_CORE_READ(this_task(), thread_info.status);

	return status & TS_COMPAT || number & X32_BIT;
#else
	return false;
#endif
}

/* Of this thread; NULL: there is none, and none could be made. */
static __always_inline struct open_call *begin_open_call(void)
{
	struct open_call none = {};
	u32 thread = bpf_get_current_pid_tgid();

	if (have_task_storage)
		return bpf_task_storage_get(&open_calls, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (bpf_map_update_elem(&open_calls_by_thread, &thread, &none, BPF_ANY))
		return NULL;
	return bpf_map_lookup_elem(&open_calls_by_thread, &thread);
}

static __always_inline struct open_call *find_open_call(void)
{
	u32 thread = bpf_get_current_pid_tgid();

	if (have_task_storage)
		return bpf_task_storage_get(&open_calls, bpf_get_current_task_btf(), NULL, 0);
	return bpf_map_lookup_elem(&open_calls_by_thread, &thread);
}

static __always_inline void forget_open_call(void)
{
	u32 thread = bpf_get_current_pid_tgid();

	if (!have_task_storage)
		bpf_map_delete_elem(&open_calls_by_thread, &thread);
}

/*
 * Keeps the start of item i of io_submit(). 0: it could not be kept. This and the loops around it are __noinline: the
 * verifier checks such a function once, not for every iteration and exit of a loop.
 */
__noinline int note_iocb(u64 array, u32 i, u64 now)
{
	u32 zero = 0;
	struct call_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct aio_call call = { .begin_ns = now };
	struct iocb_head head = {};
	struct file_facts facts;
	struct aio_key key = {};
	u32 family;
	long err;

	if (!count)
		return 0;
	if (!iocb_at(array, i, &key) ||
	    bpf_probe_read_user(&head, sizeof(head), (const void *)key.iocb))
		return 0;
	family = aio_family(head.opcode);
	if (family == CALL_NAMES)
		return 1;
	facts = facts_of(head.fd);
	if (!facts.ours) {
		count->aio_not_a_file++;
		return 1;
	}
	call.name = family;
	call.target = facts.target;
	call.moves_bytes = facts.regular;
	err = bpf_map_update_elem(&aio_calls, &key, &call, BPF_NOEXIST);
	if (err == -EEXIST) {
		/* The iocb is used again, so its last completion was taken without a system call. */
		count->aio_unseen++;
		err = bpf_map_update_elem(&aio_calls, &key, &call, BPF_ANY);
	}
	if (err)
		return 0;
	count->aio_begun++;
	return 1;
}

/* Returns how many were kept. */
__noinline int note_iocbs(u64 array, u32 items, u64 now)
{
	u32 noted = 0;

	for (u32 i = 0; i < AIO_MOST; i++) {
		if (i >= items)
			break;
		noted += note_iocb(array, i, now);
	}
	return noted;
}

__noinline int forget_iocb(u64 array, u32 i)
{
	u32 zero = 0;
	struct call_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct aio_key key = {};

	if (count && iocb_at(array, i, &key) && !bpf_map_delete_elem(&aio_calls, &key))
		count->aio_refused++;
	return 0;
}

/* Drops the iocbs behind the first `taken`, which io_submit() did not accept. */
__noinline int forget_iocbs(u64 array, u32 taken, u32 items)
{
	for (u32 i = 0; i < AIO_MOST; i++) {
		if (i >= items - taken)
			break;
		forget_iocb(array, taken + i);
	}
	return 0;
}

static __always_inline void begin_submit(struct open_call *open, struct pt_regs *regs)
{
	u64 array = argument(regs, 2), now = bpf_ktime_get_ns();
	long wanted = argument(regs, 1);

	open->array = array;
	open->items = wanted < 0 ? 0 : wanted > AIO_MOST ? AIO_MOST : wanted;
	open->missed = open->items - note_iocbs(array, open->items, now);
}

/* Tells the other collectors' programs which call the task is in. */
static __always_inline void note_context(const struct open_call *open)
{
	struct task_context *context;

	if (!have_task_contexts)
		return;
	context = make_context(bpf_get_current_task_btf());
	if (!context)
		return;
	context->call = open->name + 1;
	context->call_is_over = false;
	context->call_target = open->target;
	context->in_workload = true;
}

static __always_inline void note_context_over(const struct open_call *open)
{
	struct task_context *context;

	if (!have_task_contexts)
		return;
	context = find_context(bpf_get_current_task_btf());
	if (!context)
		return;
	context->call_is_over = true;
	context->call_target = open->target;
}

/* Bytes that a file has behind the place where a write begins: so many at most are written again. */
static __always_inline u64 inside_of(struct file *file, struct pt_regs *regs, u8 pos_arg)
{
	s64 size, place = -1;

	if (!file || BPF_CORE_READ(file, f_flags) & O_APPEND)
		return 0;
	if (pos_arg != CALL_OWN_POSITION)
		place = argument(regs, 3);
	if (place < 0) /* of pwritev2() too */
		place = BPF_CORE_READ(file, f_pos);
	size = BPF_CORE_READ(file, f_inode, i_size);
	return size > place ? size - place : 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	const volatile struct call_entry *entry;
	struct call_counts *count;
	struct open_call *open;
	struct file_facts facts;
	u32 zero = 0;

	if (is_over)
		return 0;
	if (is_compat(number)) {
		count = bpf_map_lookup_elem(&counts, &zero);
		if (count && in_workload())
			count->compat++;
		return 0;
	}
	if ((u64)number >= CALL_TABLE)
		return 0;
	entry = &table[number & (CALL_TABLE - 1)];
	if (entry->how == CALL_HOW_NOT_OURS || !in_workload())
		return 0;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	if (entry->how == CALL_HOW_MMAP && (argument(regs, 3) & MAP_ANONYMOUS))
		return 0;
	open = begin_open_call();
	if (!open) {
		count->no_storage++;
		return 0;
	}
	if (entry->how == CALL_HOW_EVENTS) {
		open->state = CALL_AWAITS_EVENTS;
		open->array = argument(regs, 3);
		return 0;
	}
	facts = facts_of_call(regs, entry);
	if (!facts.ours) {
		count->not_a_file++;
		open->state = CALL_LEFT_OUT;
		return 0;
	}
	count->entered++;
	if (entry->how == CALL_HOW_SUBMIT)
		begin_submit(open, regs);
	if (entry->how == CALL_HOW_MMAP && (argument(regs, 3) & MAP_TYPE) != MAP_PRIVATE &&
	    facts.target != CALL_TARGET_ELSEWHERE)
		maps_shared = true;
	open->state = CALL_OPENED;
	open->how = entry->how;
	open->name = entry->name;
	open->target = facts.target;
	open->moves_bytes = entry->moves_bytes && facts.regular;
	open->inside = 0;
	if (entry->pos_arg != CALL_NO_ARG && facts.regular && facts.target != CALL_TARGET_ELSEWHERE)
		open->inside = inside_of(facts.file, regs, entry->pos_arg);
	note_context(open);
	open->enter_ns = bpf_ktime_get_ns(); /* last: our own work is not the call's latency */
	return 0;
}

static __always_inline u32 log2_of(u64 value)
{
	u32 result = 0;

	if (value >> 32) {
		value >>= 32;
		result += 32;
	}
	if (value >> 16) {
		value >>= 16;
		result += 16;
	}
	if (value >> 8) {
		value >>= 8;
		result += 8;
	}
	if (value >> 4) {
		value >>= 4;
		result += 4;
	}
	if (value >> 2) {
		value >>= 2;
		result += 2;
	}
	return result + (value >> 1);
}

static __always_inline u32 bucket_of(u64 ns)
{
	u32 e, bucket;

	if (ns < 8)
		return ns;
	e = log2_of(ns);
	bucket = (e - 2) * 8 + ((ns >> (e - 3)) & 7);
	return bucket < LAST_BUCKET ? bucket : LAST_BUCKET;
}

/* Adds a call that ends now. False: the recorder has not emptied the bin in time. */
static __always_inline bool add(u64 begin_ns, u32 name, u32 target, u64 now, long bytes, u64 inside,
				bool failed)
{
	u64 ns = now - begin_ns, bin = bin_of(&cuts, bin_ns, now);
	u32 cell_index = bpf_get_smp_processor_id();
	struct call_cell *cell;

	if (bin - drained_to >= CALL_BIN_SLOTS)
		return false;
	cell_index = cell_index * CALL_BIN_SLOTS + bin % CALL_BIN_SLOTS;
	cell_index = (cell_index * CALL_NAMES + name) * CALL_TARGETS + target;
	cell = bpf_map_lookup_elem(&cells, &cell_index);
	if (!cell)
		return false;
	cell->count++;
	cell->total_ns += ns;
	if (ns > cell->max_ns)
		cell->max_ns = ns;
	cell->hist[bucket_of(ns) & LAST_BUCKET]++;
	if (bytes > 0) {
		cell->bytes += bytes;
		cell->over_bytes += (u64)bytes < inside ? (u64)bytes : inside;
	}
	cell->errors += failed;
	return true;
}

#include "call_faults.h"

static __always_inline bool is_error(long result)
{
	return result < 0 && result >= -MAX_ERRNO;
}

static __always_inline void add_call(struct open_call *open, struct call_counts *count, u64 now,
				     long result)
{
	bool failed = is_error(result);
	bool restarted = failed && result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK;

	if (!add(open->enter_ns, open->name, open->target, now, open->moves_bytes ? result : 0,
		 open->inside, failed && !restarted)) {
		count->late++;
		return;
	}
	count->restarted += restarted;
	count->counted++;
	if (failed)
		return;
	count->mapped += open->name == CALL_MMAP && open->target == CALL_TARGET_TARGET;
	count->io_uring += open->name == CALL_IO_URING;
}

/* Counts event i of those io_getevents() has put into the program's memory. __noinline as note_iocb(). */
__noinline int count_event(u64 array, u32 i, u64 now)
{
	u32 zero = 0;
	struct call_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct aio_key key = { .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct io_event event = {};
	struct aio_call *found;

	if (!count)
		return 0;
	/*
	 * Fails only after another thread's munmap(): the kernel has just written there. Counted at the iocb's next
	 * use.
	 */
	if (bpf_probe_read_user(&event, sizeof(event), (const void *)(array + i * sizeof(event))))
		return 0;
	key.iocb = event.iocb;
	found = bpf_map_lookup_elem(&aio_calls, &key);
	if (!found) {
		count->aio_not_begun++;
		return 0;
	}
	if (add(found->begin_ns, found->name, found->target, now,
		found->moves_bytes ? event.result : 0, 0, is_error(event.result)))
		count->aio_counted++;
	else
		count->aio_late++;
	/* Each event is returned to one caller, so no other program deletes the entry. */
	bpf_map_delete_elem(&aio_calls, &key);
	return 0;
}

__noinline int count_events(u64 array, u32 events, u64 now)
{
	for (u32 i = 0; i < AIO_MOST; i++) {
		if (i >= events)
			break;
		count_event(array, i, now);
	}
	return 0;
}

static __always_inline void end_submit(struct open_call *open, struct call_counts *count,
				       long result)
{
	u32 items = open->items, missed = open->missed;
	u32 taken = result <= 0 ? 0 : result > items ? items : result;

	if (taken < items)
		forget_iocbs(open->array, taken, items);
	/* Which ones of a call were missed is not known; it takes the first ones. */
	count->aio_missed += missed < taken ? missed : taken;
	if (result > (long)items)
		count->aio_missed += result - items;
}

/* Counts a call that ends without a begin: it was under way when the recording began. */
static __always_inline void note_unknown(struct pt_regs *regs, struct call_counts *count)
{
#ifdef bpf_target_x86
	u64 number = regs->orig_ax;

	enum call_how how = table[number & (CALL_TABLE - 1)].how;

	if (number < CALL_TABLE && how != CALL_HOW_NOT_OURS && how != CALL_HOW_MMAP &&
	    how != CALL_HOW_EVENTS && !is_compat(number) && in_workload())
		count->not_entered++;
#endif
}

static __always_inline void close_call(struct open_call *open, struct call_counts *count, u64 now,
				       long result)
{
	struct file_facts facts;
	u32 state = open->state;

	open->state = CALL_CLOSED;
	if (state == CALL_LEFT_OUT)
		return;
	if (state == CALL_AWAITS_EVENTS) {
		if (result > 0)
			count_events(open->array, result, now);
		return;
	}
	if (open->how == CALL_HOW_SUBMIT)
		end_submit(open, count, result);
	if (open->how == CALL_HOW_OPEN && result >= 0) {
		facts = facts_of(result);
		if (!facts.ours) {
			count->dropped++;
			return;
		}
		open->target = facts.target;
	}
	note_context_over(open);
	add_call(open, count, now, result);
}

static __always_inline void end_call(struct pt_regs *regs, long result)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	struct call_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct open_call *open;

	open = find_open_call();
	if (!count)
		return;
	if (!open || open->state == CALL_CLOSED) {
		note_unknown(regs, count);
		return;
	}
	close_call(open, count, now, result);
	forget_open_call();
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long result)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];

	if (is_over)
		return 0;
	*(volatile u64 *)&epoch->count += 1;
	end_call(regs, result);
	*(volatile u64 *)&epoch->count += 1;
	return 0;
}

/* A request is handed to io_uring. */
static __always_inline int begin_uring(struct io_kiocb *request)
{
	u64 address = (u64)request, now;
	struct call_counts *count;
	u32 zero = 0;
	long err;

	if (is_over || uring_family(request->opcode) == CALL_NAMES || !in_workload())
		return 0;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	count->uring_begun++;
	if (request->flags & REQ_F_CQE_SKIP) {
		count->uring_unseen++; /* no completion unless it fails */
		return 0;
	}
	now = bpf_ktime_get_ns();
	err = bpf_map_update_elem(&uring_begins, &address, &now, BPF_NOEXIST);
	if (err == -EEXIST) {
		count->uring_unseen++; /* the last request at this address: full completion ring, or the like */
		err = bpf_map_update_elem(&uring_begins, &address, &now, BPF_ANY);
	}
	if (err)
		count->uring_full++;
	return 0;
}

/* So named since "io_uring: rename trace_io_uring_submit_sqe() tracepoint" (March 2023; 6.1 has the old name) */
SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(uring_submit_req, struct io_kiocb *request)
{
	return begin_uring(request);
}

/* The older name. The recorder loads the one of the two that the kernel has. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(uring_submit_sqe, struct io_kiocb *request)
{
	return begin_uring(request);
}

static __always_inline void end_uring(struct io_kiocb *request, u32 family,
				      struct call_counts *count)
{
	u64 address = (u64)request, begin_ns, now;
	struct file_facts facts;
	u64 *found;
	s32 result;

	found = bpf_map_lookup_elem(&uring_begins, &address);
	if (!found) {
		if (in_workload())
			count->uring_not_begun++;
		return;
	}
	begin_ns = *found;
	now = bpf_ktime_get_ns();
	bpf_map_delete_elem(&uring_begins, &address);
	facts = facts_of_file(BPF_CORE_READ(request, file));
	if (!facts.ours) {
		count->uring_not_a_file++;
		return;
	}
	result = BPF_CORE_READ(request, cqe.res);
	if (add(begin_ns, family, facts.target, now, facts.regular ? result : 0, 0,
		is_error(result)))
		count->uring_counted++;
	else
		count->uring_late++;
}

/* Counts splices and uring_cmds, whose bytes are not counted. */
static __always_inline void note_uncounted(struct io_kiocb *request, u32 opcode,
					   struct call_counts *count)
{
	struct file_facts facts;

	if (BPF_CORE_READ(request, cqe.res) < 0 || !in_workload())
		return;
	/* A splice counts for the file written to, which may be a pipe. */
	facts = facts_of_file(BPF_CORE_READ(request, file));
	count->uring_others += facts.regular || opcode == URING_SPLICE;
}

/*
 * On some kernels sys_exit() can preempt this program, so odd and even epochs would mean nothing: it counts itself in
 * and out (bin_epoch.h).
 */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(uring_complete, void *ring, struct io_kiocb *request)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];
	struct call_counts *count;
	u32 family, opcode, zero = 0;

	if (is_over || !request) /* an event without a request */
		return 0;
	opcode = BPF_CORE_READ(request, opcode);
	family = uring_family(opcode);
	if (family == CALL_NAMES && !(opcode < URING_OPS && URING_OP(opcode) & URING_OTHERS))
		return 0;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	if (family == CALL_NAMES) {
		note_uncounted(request, opcode, count);
		return 0;
	}
	__sync_fetch_and_add(&epoch->inside, 1);
	end_uring(request, family, count);
	__sync_fetch_and_add(&epoch->inside, -1);
	return 0;
}
