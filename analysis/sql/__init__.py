# SPDX-License-Identifier: BSD-2-Clause
"""SQL over the tables of finished runs, by DuckDB: one view per table, for one run or several."""
