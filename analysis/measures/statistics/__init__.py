# SPDX-License-Identifier: BSD-2-Clause
"""Statistics of repeated runs: pure functions on arrays. common/statistics.py has what every report needs."""
