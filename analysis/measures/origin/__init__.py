# SPDX-License-Identifier: BSD-2-Clause
"""Why requests were sent, and what became of the bytes that the application wrote."""
