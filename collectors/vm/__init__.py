# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a virtual machine: the host's side."""
