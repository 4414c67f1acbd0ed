# SPDX-License-Identifier: BSD-2-Clause
"""Rules, as data, that say why each request was sent."""
