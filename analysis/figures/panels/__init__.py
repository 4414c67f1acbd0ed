# SPDX-License-Identifier: BSD-2-Clause
"""The panels of the IO graph, one module each; panel.py says what a module states."""
