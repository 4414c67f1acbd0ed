# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `threads`: time of every thread by state."""
