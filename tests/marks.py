# SPDX-License-Identifier: BSD-2-Clause
"""Marks that tests of several folders share; tests/README.md says in which tiers a marked test runs."""

import pytest

needs_root = pytest.mark.root
# Checks a file system of several devices: e2fsck and btrfs check then look for the others on every disk
# (libblkid), so they also read disks whose requests another test counts.
scans_disks = pytest.mark.scans_disks
real_time = pytest.mark.real_time
