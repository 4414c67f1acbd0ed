# SPDX-License-Identifier: BSD-2-Clause
"""What the finder of dips promises, measured on series made by chance: `python -m tests.dips`."""
