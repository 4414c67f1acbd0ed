// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which system calls are file-system calls, what family they belong to, and where their file is named.
 *
 * Numbers differ between architectures, and old calls (open, stat, rename…) don't exist on all, so this
 * is resolved here, at compile time, and handed to calls.bpf.c.
 */
#include "call_table.h"

#include <sys/syscall.h>

#define NO CALL_NO_ARG
#define FD(name, fd)                                 \
	{                                            \
		CALL_HOW_FD, name, fd, NO, NO, 0, NO \
	}
#define MOVE(name, fd)                               \
	{                                            \
		CALL_HOW_FD, name, fd, NO, NO, 1, NO \
	}
#define WRITE(position)                                         \
	{                                                       \
		CALL_HOW_FD, CALL_WRITE, 0, NO, NO, 1, position \
	}
#define PATH(name, path)                                 \
	{                                                \
		CALL_HOW_PATH, name, NO, path, NO, 0, NO \
	}
#define PATH_AT(name, dir, path)                          \
	{                                                 \
		CALL_HOW_PATH, name, dir, path, NO, 0, NO \
	}
#define COPY(from, to)                                        \
	{                                                     \
		CALL_HOW_COPY, CALL_COPY, from, NO, to, 1, NO \
	}
#define NOTHING(name)                                     \
	{                                                 \
		CALL_HOW_NOTHING, name, NO, NO, NO, 0, NO \
	}

/* Calls with two paths count for the second one: where the new name appears. */
const struct call_entry call_table[CALL_TABLE] = {
	[SYS_read] = MOVE(CALL_READ, 0),
	[SYS_pread64] = MOVE(CALL_READ, 0),
	[SYS_readv] = MOVE(CALL_READ, 0),
	[SYS_preadv] = MOVE(CALL_READ, 0),
	[SYS_preadv2] = MOVE(CALL_READ, 0),
	[SYS_write] = WRITE(CALL_OWN_POSITION),
	[SYS_pwrite64] = WRITE(3),
	[SYS_writev] = WRITE(CALL_OWN_POSITION),
	[SYS_pwritev] = WRITE(3),
	[SYS_pwritev2] = WRITE(3),
	[SYS_openat] = { CALL_HOW_OPEN, CALL_OPEN, 0, 1, NO, 0, NO },
	[SYS_openat2] = { CALL_HOW_OPEN, CALL_OPEN, 0, 1, NO, 0, NO },
	[SYS_close] = FD(CALL_CLOSE, 0),
	[SYS_fstat] = FD(CALL_STAT, 0),
	[SYS_newfstatat] = PATH_AT(CALL_STAT, 0, 1),
	[SYS_statx] = PATH_AT(CALL_STAT, 0, 1),
	[SYS_faccessat] = PATH_AT(CALL_ACCESS, 0, 1),
	[SYS_faccessat2] = PATH_AT(CALL_ACCESS, 0, 1),
	[SYS_readlinkat] = PATH_AT(CALL_READLINK, 0, 1),
	[SYS_getdents64] = FD(CALL_READDIR, 0),
	[SYS_unlinkat] = PATH_AT(CALL_UNLINK, 0, 1),
	[SYS_renameat2] = PATH_AT(CALL_RENAME, 2, 3),
	[SYS_mkdirat] = PATH_AT(CALL_MKDIR, 0, 1),
	[SYS_linkat] = PATH_AT(CALL_LINK, 2, 3),
	[SYS_symlinkat] = PATH_AT(CALL_SYMLINK, 1, 2),
	[SYS_truncate] = PATH(CALL_TRUNCATE, 0),
	[SYS_ftruncate] = FD(CALL_TRUNCATE, 0),
	[SYS_fallocate] = FD(CALL_FALLOCATE, 0),
	[SYS_fsync] = FD(CALL_FSYNC, 0),
	[SYS_fdatasync] = FD(CALL_FDATASYNC, 0),
	[SYS_sync] = NOTHING(CALL_SYNC),
	[SYS_syncfs] = FD(CALL_SYNCFS, 0),
	[SYS_sync_file_range] = FD(CALL_SYNC_FILE_RANGE, 0),
	[SYS_copy_file_range] = COPY(0, 2),
	[SYS_sendfile] = COPY(1, 0),
	[SYS_splice] = COPY(0, 2),
	[SYS_fadvise64] = FD(CALL_READAHEAD, 0),
	[SYS_readahead] = FD(CALL_READAHEAD, 0),
	[SYS_fchmod] = FD(CALL_SETATTR, 0),
	[SYS_fchmodat] = PATH_AT(CALL_SETATTR, 0, 1),
	[SYS_fchown] = FD(CALL_SETATTR, 0),
	[SYS_fchownat] = PATH_AT(CALL_SETATTR, 0, 1),
	[SYS_utimensat] = PATH_AT(CALL_SETATTR, 0, 1),
	[SYS_setxattr] = PATH(CALL_XATTR, 0),
	[SYS_lsetxattr] = PATH(CALL_XATTR, 0),
	[SYS_fsetxattr] = FD(CALL_XATTR, 0),
	[SYS_getxattr] = PATH(CALL_XATTR, 0),
	[SYS_lgetxattr] = PATH(CALL_XATTR, 0),
	[SYS_fgetxattr] = FD(CALL_XATTR, 0),
	[SYS_listxattr] = PATH(CALL_XATTR, 0),
	[SYS_llistxattr] = PATH(CALL_XATTR, 0),
	[SYS_flistxattr] = FD(CALL_XATTR, 0),
	[SYS_removexattr] = PATH(CALL_XATTR, 0),
	[SYS_lremovexattr] = PATH(CALL_XATTR, 0),
	[SYS_fremovexattr] = FD(CALL_XATTR, 0),
	[SYS_mmap] = { CALL_HOW_MMAP, CALL_MMAP, 4, NO, NO, 0, NO },
	[SYS_msync] = NOTHING(CALL_MSYNC),
	[SYS_io_uring_enter] = NOTHING(CALL_IO_URING),
	/* may be the only call of a program whose ring the kernel polls */
	[SYS_io_uring_setup] = NOTHING(CALL_IO_URING),
	[SYS_io_submit] = { CALL_HOW_SUBMIT, CALL_AIO, NO, NO, NO, 0, NO },
	[SYS_io_getevents] = { CALL_HOW_EVENTS, CALL_AIO, NO, NO, NO, 0, NO },
	[SYS_io_pgetevents] = { CALL_HOW_EVENTS, CALL_AIO, NO, NO, NO, 0, NO },
#ifdef SYS_fchmodat2
	[SYS_fchmodat2] = PATH_AT(CALL_SETATTR, 0, 1),
#endif
/* The old calls, absent from newer architectures. */
#ifdef SYS_open
	[SYS_open] = { CALL_HOW_OPEN, CALL_OPEN, NO, 0, NO, 0, NO },
	[SYS_creat] = { CALL_HOW_OPEN, CALL_OPEN, NO, 0, NO, 0, NO },
	[SYS_stat] = PATH(CALL_STAT, 0),
	[SYS_lstat] = PATH(CALL_STAT, 0),
	[SYS_access] = PATH(CALL_ACCESS, 0),
	[SYS_readlink] = PATH(CALL_READLINK, 0),
	[SYS_getdents] = FD(CALL_READDIR, 0),
	[SYS_unlink] = PATH(CALL_UNLINK, 0),
	[SYS_rename] = PATH(CALL_RENAME, 1),
	[SYS_mkdir] = PATH(CALL_MKDIR, 0),
	[SYS_rmdir] = PATH(CALL_RMDIR, 0),
	[SYS_link] = PATH(CALL_LINK, 1),
	[SYS_symlink] = PATH(CALL_SYMLINK, 1),
	[SYS_chmod] = PATH(CALL_SETATTR, 0),
	[SYS_chown] = PATH(CALL_SETATTR, 0),
	[SYS_lchown] = PATH(CALL_SETATTR, 0),
	[SYS_utime] = PATH(CALL_SETATTR, 0),
	[SYS_utimes] = PATH(CALL_SETATTR, 0),
	[SYS_futimesat] = PATH_AT(CALL_SETATTR, 0, 1),
#endif
#ifdef SYS_renameat
	[SYS_renameat] = PATH_AT(CALL_RENAME, 2, 3),
#endif
};
