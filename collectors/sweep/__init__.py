# SPDX-License-Identifier: BSD-2-Clause
"""make sweep and make study: carry out a SweepPlan, one make trace after the other."""
