# SPDX-License-Identifier: BSD-2-Clause
"""Measures of requests: times, sectors, kinds, owners."""
