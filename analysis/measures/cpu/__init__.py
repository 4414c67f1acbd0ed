# SPDX-License-Identifier: BSD-2-Clause
"""Where CPUs spent their time, by samples."""
