#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# worker.sh ARGUMENT…: make worker without make, for a sweep that starts this by ssh: installs and builds what runs need,
# then becomes the worker. Standard input is the worker's alone: its Setup, and its end.
# Exit status: the worker's, or setup's.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
collectors/front/setup.sh cluster worker </dev/null >&2
make --no-print-directory build </dev/null >&2
exec .venv/bin/python -B -m collectors.cluster.worker "$@"
