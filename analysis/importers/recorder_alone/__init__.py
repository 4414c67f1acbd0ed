# SPDX-License-Identifier: BSD-2-Clause
"""Import what the recorder left on a machine without Python: a directory with alone.json, or a tar of it."""
