# SPDX-License-Identifier: BSD-2-Clause
"""The plan of a trace: every command line, device and size, as data, and as the text of make plan."""
