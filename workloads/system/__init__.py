# SPDX-License-Identifier: BSD-2-Clause
"""The machine underneath: commands, mounts, loop devices, errors, units. Imports no other room."""
