# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of what measures/ computed; nothing is computed here but where ink goes."""
