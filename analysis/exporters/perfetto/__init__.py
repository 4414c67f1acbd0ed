# SPDX-License-Identifier: BSD-2-Clause
"""What a Perfetto trace is made of: the encoding, lanes, and a module for each kind of track."""
