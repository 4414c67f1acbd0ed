# SPDX-License-Identifier: BSD-2-Clause
"""I/O and thread time by service, container, pod, virtual machine and user."""
