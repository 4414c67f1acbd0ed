# SPDX-License-Identifier: BSD-2-Clause
"""The first screen of a report: what ran, what it got, where its time went, why, and what is not known."""
