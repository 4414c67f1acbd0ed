#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# python.sh ARGUMENT…: run Python 3.11 or newer for a job that needs no setup, leaving no __pycache__ in the tree.
set -euo pipefail
python=$("${BASH_SOURCE%/*}/setup.sh" python)
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$@"
