# SPDX-License-Identifier: BSD-2-Clause
"""The recorder: one C process that loads the BPF programs and writes their tables; and its start and stop."""
