# SPDX-License-Identifier: BSD-2-Clause
"""make verify: what a finished run and one of its findings ask for; collectors/sweep/ carries it out."""
