# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of a sweep's report: one module, one picture."""
