# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of a comparison, one module each."""
