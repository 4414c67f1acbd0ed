# SPDX-License-Identifier: BSD-2-Clause
"""The machine underneath: commands, mounts, loop devices, cgroups, errors, units. Imports no other room."""
