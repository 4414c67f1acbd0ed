# SPDX-License-Identifier: BSD-2-Clause
"""The options of the command line (make JOB NAME=value), checked before anything is done."""
