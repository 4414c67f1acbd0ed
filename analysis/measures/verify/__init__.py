# SPDX-License-Identifier: BSD-2-Clause
"""What the pairs of runs of make verify say about a finding: the seconds saved, and the verdict."""
