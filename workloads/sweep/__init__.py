# SPDX-License-Identifier: BSD-2-Clause
"""A sweep as data: which runs make sweep and make study start, in which order, and what they take."""
