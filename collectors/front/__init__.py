# SPDX-License-Identifier: BSD-2-Clause
"""What stands between make and the jobs: setup, help, list, and the check of the command line's options."""
