# SPDX-License-Identifier: BSD-2-Clause
"""What the application did: calls, bytes, phases, its own results, and what goes along with them."""
