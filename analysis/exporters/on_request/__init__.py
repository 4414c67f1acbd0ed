# SPDX-License-Identifier: BSD-2-Clause
"""A run's tables as files of other tools, which `make export TO=` writes: each module states EXPORT."""
