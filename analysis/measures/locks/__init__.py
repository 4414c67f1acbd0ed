# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits, holders and holds."""
