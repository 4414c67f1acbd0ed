# SPDX-License-Identifier: BSD-2-Clause
"""A document as 80-column text and as an HTML page; the files of a report."""
