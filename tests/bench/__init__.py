# SPDX-License-Identifier: BSD-2-Clause
"""make bench: costs of tracing and reporting, against other tools."""
