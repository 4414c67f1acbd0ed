# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of a study: one module each, with OUTPUT."""
