# SPDX-License-Identifier: BSD-2-Clause
"""The session around a workload: format, mount, record, run, stop, put everything back."""
