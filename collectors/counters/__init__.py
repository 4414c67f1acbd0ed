# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's collector `counters`: CPU, memory, pressure and disk counters."""
