#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# record.sh JOB: run a recording job (trace, watch, sweep, study, verify), then report the directory that the job made.
#
# The job prints its directory on stdout as soon as all is recorded, and everything else on stderr. The report is
# made while the job still restores the machine: freeing a disk file of some GB takes longer than the report.
# ^C ends the job, and not these shells: an interrupted or failed run is reported too.
# Exit status: the job's, or the report's if the job's is 0.
trap : INT
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
python=("$tree/.venv/bin/python")
# Behind sudo: no compiled files of root's in the user's tree.
[ -z "${SUDO_UID:-}" ] || python+=(-B)
# Modules are the tree's, whatever the working directory is.
python+=(-P "$tree/collectors/front/start.py")
# SECS=0 has no end: watch shows the screen of each window itself. With UNTIL= it reports each run that it keeps.
if [[ $1 = watch && (-n ${SEEKMETER_UNTIL-} || ${SEEKMETER_SECS-} =~ ^(0+\.?0*|\.0+)$) ]]; then
	exec "${python[@]}" collectors watch
fi
# The runs of verify are judged, and the verdict is kept in the run that the finding is of.
report=report
[ "$1" != verify ] || report=verify
"${python[@]}" collectors "$1" | {
	trap : INT
	# read returns more than 128 after a signal: the job has not ended then.
	until read -r run || [ $? -le 128 ]; do :; done
	[ -z "$run" ] || "${python[@]}" analysis "$report" "$run"
}
status=("${PIPESTATUS[@]}")
exit $((status[0] ? status[0] : status[1]))
