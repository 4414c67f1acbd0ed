# SPDX-License-Identifier: BSD-2-Clause
"""One content (sections of words and tables), set twice: as 80-column text and as an HTML page."""
