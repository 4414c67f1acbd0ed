# SPDX-License-Identifier: BSD-2-Clause
"""What the tracing costs, beside its peers (make bench)."""
