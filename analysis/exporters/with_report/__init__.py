# SPDX-License-Identifier: BSD-2-Clause
"""Results as files of other tools, which every report writes: each module states OUTPUT."""
