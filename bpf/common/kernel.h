/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The few kernel types the programs read. Only the members in use stand here, in any order: libbpf puts in
 * the running kernel's offsets (CO-RE), so this builds on a machine without BTF and needs no 3 MB vmlinux.h.
 * A member that some kernels lack is tested with bpf_core_field_exists() where it is used.
 */
#ifndef SEEKMETER_KERNEL_H
#define SEEKMETER_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
/* The names bpf_helper_defs.h uses. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

#define BPF_ANY			       0
#define BPF_NOEXIST		       1
#define BPF_F_MMAPABLE		       (1U << 10)
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_F_NO_PREALLOC	       1
#define BPF_RB_NO_WAKEUP	       1
/* asm-generic/errno-base.h: what bpf_map_update_elem() returns, negative */
#define E2BIG			       7  /* the map is full */
#define EEXIST			       17 /* BPF_NOEXIST, and the key is there */

#ifndef NULL
#define NULL ((void *)0)
#endif
#define true 1
#define false 0

/*
 * A static function of its own, with a stack frame of its own, that returns 0. clang drops the return value of a static
 * function where no caller looks at it, and r0 keeps what was there; the verifier refuses an address of the stack in it.
 * `used` keeps the value.
 */
#define __separate __attribute__((noinline, used))

/* linux/bpf.h: fixed numbers (uapi) */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* linux/bpf.h: which helpers the kernel has */
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block;
struct address_space;

/* linux/fs.h */
struct inode {
	s64 i_size;
	u16 i_mode;
	unsigned long i_ino;
	u32 i_rdev;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	const struct file_operations *i_fop;
};

struct file_operations {
	void *read;
	void *read_iter;
};

struct address_space {
	struct inode *host;
};

struct gendisk;

/* linux/blk_types.h */
struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
	void *bd_holder; /* exclusive owner: a mounted file system, swap, O_EXCL; NULL: none */
};

/* block/bdev.c: a block device and its inode */
struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
};

/* linux/blkdev.h */
struct gendisk {
	int major;
	int first_minor;
	char disk_name[32];
};

struct request_queue {
	/* since Linux kernel commit d152c682f03c ("block: add an explicit ->disk backpointer to the request_queue") (in v5.15) */
	struct gendisk *disk;
	struct request *last_merge;
};

struct blk_mq_hw_ctx {
	unsigned int queue_num;
};

/* linux/mm_types.h */
struct page {
	unsigned long
		compound_head; /* bit 0 set: a tail page, the other bits are the head's address */
	/* so named since "mm: rename the 'compound_head' field in the 'struct page' to 'compound_info'" (7.2 has it) */
	unsigned long compound_info;
	struct address_space *mapping;
};

struct bio_vec {
	struct page *bv_page;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	/* before Linux kernel commit 309dca309fc3 ("block: store a block_device pointer in struct bio") (in v5.12) */
	struct gendisk *bi_disk;
	u32 bi_opf;
	u16 bi_flags;
	u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_private;
	void *bi_end_io;
	struct bio_vec *bi_io_vec;
};

/* linux/blk-mq.h */
enum mq_rq_state {
	MQ_RQ_IDLE, /* free, or put off */
};

struct request {
	struct request_queue *q;
	struct blk_mq_hw_ctx *mq_hctx;
	u32 cmd_flags;
	int tag;
	enum mq_rq_state state;
	unsigned int __data_len;
	u64 __sector;
	struct bio *bio;
	struct bio *biotail;
	/* until Linux kernel commit f3fa33acca9f ("block: remove the ->rq_disk field in struct request") (in v5.17) */
	struct gendisk *rq_disk;
	u64 start_time_ns;
};

/* asm/thread_info.h */
struct thread_info {
	u32 status;
};

struct fs_struct;
struct files_struct;

/* linux/sched.h */
struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	struct task_struct *real_parent;
	struct thread_info thread_info;
	void *stack;
	struct fs_struct *fs;
	struct files_struct *files;
	unsigned int __state;
	int on_cpu;
	unsigned int in_iowait : 1;
	void *journal_info;
	unsigned long min_flt, maj_flt; /* page faults that have ended */
	char comm[16];
};

/* linux/types.h */
typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

/* linux/mutex.h, linux/rwsem.h: the owner's task_struct, with flags in the low bits */
struct optimistic_spin_queue {
	atomic_t tail; /* 0: no task spins */
};

struct mutex {
	atomic64_t owner;
	struct optimistic_spin_queue osq;
};

struct rw_semaphore {
	atomic64_t count;
	atomic64_t owner;
	struct optimistic_spin_queue osq;
};

/* linux/rcu_sync.h, linux/percpu-rwsem.h */
struct rcu_sync {
	int gp_count; /* writers between rcu_sync_enter() and rcu_sync_exit() */
};

struct percpu_rw_semaphore {
	struct rcu_sync rss;
};

/* linux/fdtable.h */
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct file {
	struct inode *f_inode;
	unsigned int f_flags;
	s64 f_pos;
};

/* linux/io_uring_types.h */
struct io_cqe {
	s32 res;
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	/* an unsigned int in 6.1: libbpf makes the load as wide as the kernel's own */
	u64 flags;
	struct io_cqe cqe;
};

/* linux/fs_struct.h, linux/path.h, linux/dcache.h */
struct dentry {
	struct super_block *d_sb;
};

struct path {
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

/* asm/ptrace.h; libbpf's PT_REGS_PARM*_SYSCALL read them */
#if defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
	u64 regs[31], sp, pc;
};

struct pt_regs {
	struct user_pt_regs user_regs;
};
#else
struct pt_regs {
	unsigned long r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, sp, bp;
};
#endif

/* linux/slub_def.h */
struct kmem_cache {
	const char *name;
};

#pragma clang attribute pop

/* linux/blk_types.h: positions have moved between versions, so they are relocated too. */
enum req_flag_bits {
	__REQ_SYNC = 11,
	__REQ_META = 12,
	__REQ_PRIO = 13,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
	__REQ_RAHEAD = 19,
};

#define REQ_OP_NUMBERS \
	256 /* linux/blk_types.h: 1 << REQ_OP_BITS, in request.cmd_flags and bio.bi_opf */

#endif
