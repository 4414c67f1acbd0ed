# SPDX-License-Identifier: BSD-2-Clause
"""Lets the analysis tests import synthetic.py, which lies beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
