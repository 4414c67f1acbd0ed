# SPDX-License-Identifier: BSD-2-Clause
"""Undo what a session made, also after kill -9: the undo list, one function per kind, the guard process."""
