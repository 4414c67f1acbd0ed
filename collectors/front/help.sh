#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `make help`: the jobs from the comments in the Makefile, the variables from workloads/cli/options.py. Needs nothing
# installed, not even Python, so that it works before the first setup.
set -euo pipefail
cd "$(dirname "$0")/../.."

echo "Seekmeter: why is this file system slow here?  make JOB VARIABLE=value ..."
echo
echo "  make trace FS=ext3 WL=compilebench         format, mount, run, trace, report"
echo "  make trace DIR=/srv/data CMD='pgbench ...'   trace your own command; formats nothing"
echo "  make watch DEV=nvme0n1 SECS=30             observe a live system; runs nothing"
echo
echo "jobs"
sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' Makefile | while read -r job text; do
	printf '  %-9s %s\n' "$job" "$text"
done
echo
echo "variables"
sed -n '/^VARIABLES = {/,/^}/ s/^ *"\([A-Z]*\)": "\(.*\)",$/\1 \2/p' workloads/cli/options.py | while read -r name text; do
	printf '  %-9s %s\n' "$name" "$text"
done
printf '  %-9s %s\n' V "V=1 shows every command of the build"
cat <<'EOF'

Exit codes: 0 done, 1 the run failed, 2 wrong words, 3 this machine cannot. make itself always ends with 2
where a job failed; the job's own code is in its last line ("Error 3"). A script that needs it starts the job
without make: SEEKMETER_FS=ext3 SEEKMETER_WL=compilebench .venv/bin/python -m collectors trace
EOF
