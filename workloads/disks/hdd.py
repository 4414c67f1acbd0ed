# SPDX-License-Identifier: BSD-2-Clause
"""Emulated spinning disks: build/drive-server serves a file by FUSE, and a loop device lies on that file.

The server is a child of the session, outside of the workload's cgroup: a server that shares the workload's
memory limit waits for its own write-back, and then not even SIGKILL ends it. It lives in the session's mount
namespace, so it sees what the session unmounts and keeps nothing busy.
"""
