# SPDX-License-Identifier: BSD-2-Clause
"""The recorder without a session: it finds the devices itself, and writes the facts that an import needs."""
