# SPDX-License-Identifier: BSD-2-Clause
"""A sweep's runs on other machines, by Dask distributed. Imported only with ON=, and by make worker."""
