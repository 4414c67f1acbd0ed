# SPDX-License-Identifier: BSD-2-Clause
"""What a trace would do: every command line, device and size, as data, and as the text of make plan."""
