# SPDX-License-Identifier: BSD-2-Clause
"""Marks that tests of several folders share; tests/README.md says in which tiers a marked test runs."""

import pytest

needs_root = pytest.mark.root
