# SPDX-License-Identifier: BSD-2-Clause
"""Files for other tools, a module a format: with_report/ by every report, on_request/ by `make export`."""
