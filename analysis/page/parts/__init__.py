# SPDX-License-Identifier: BSD-2-Clause
"""What the page shows of a run, a module for each subject, which states PART."""
