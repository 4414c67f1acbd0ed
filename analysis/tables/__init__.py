# SPDX-License-Identifier: BSD-2-Clause
"""Raw recordings become Parquet tables here, and tables become numpy columns."""
