# SPDX-License-Identifier: BSD-2-Clause
"""The jobs of the front door: setup, help, list, and the check of the command line's options."""
