# SPDX-License-Identifier: BSD-2-Clause
"""Requests to the device: times, places, kinds, owners."""
