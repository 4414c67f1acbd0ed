# SPDX-License-Identifier: BSD-2-Clause
"""What a session must undo, also after kill -9: the list, how each kind is undone, and the guard process."""
