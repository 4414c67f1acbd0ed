# SPDX-License-Identifier: BSD-2-Clause
"""Files for other people's tools: one file, one format."""
