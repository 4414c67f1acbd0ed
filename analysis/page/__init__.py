# SPDX-License-Identifier: BSD-2-Clause
"""The live part of report.html: what is packed into it, and the scripts that draw it."""
