# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of one run's report, one module each."""
