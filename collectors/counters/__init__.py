# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's source `counters`: CPU, memory, pressure and disk counters."""
