# SPDX-License-Identifier: BSD-2-Clause
"""Export results for other tools: one module per format."""
