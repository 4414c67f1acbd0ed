#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# analyse.sh JOB: run a job that reads finished runs, with its variables from the environment (see the Makefile).
#
# The working directory is the user's: runs/latest and relative names are looked up there. Exit status: the job's.
set -euo pipefail
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=("$tree/.venv/bin/python")
[ -z "${SUDO_UID:-}" ] || python+=(-B) # no compiled files of root's in the user's tree
python+=(-P "$tree/collectors/front/start.py")
run=${SEEKMETER_RUN:-runs/latest}

# analysis ARGUMENT…
analysis() {
	exec "${python[@]}" analysis "$@"
}

case $1 in
report)
	# analysis/ gets the drive's parameters as a file. Started by root, it reads the file as the run's owner: hence
	# 644. In /tmp nobody else can replace the file, as they could in a TMPDIR of the user behind sudo.
	drive=
	if [ -n "${SEEKMETER_MODEL-}" ]; then
		drive=$(mktemp -p /tmp)
		trap 'rm -f "$drive"' EXIT
		[ "$EUID" != 0 ] || chmod 644 "$drive"
		"${python[@]}" workloads.drives "$SEEKMETER_MODEL" >"$drive"
	fi
	"${python[@]}" analysis report ${SEEKMETER_LOCKS:+--locks="$SEEKMETER_LOCKS"} \
		${SEEKMETER_BY:+--by="$SEEKMETER_BY"} ${drive:+--model="$drive"} "$run"
	;;
movie) analysis movie ${SEEKMETER_BY:+--by="$SEEKMETER_BY"} "$run" ;;
export) analysis export ${SEEKMETER_TO:+--to="$SEEKMETER_TO"} ${SEEKMETER_OUT:+--out="$SEEKMETER_OUT"} "$run" ;;
compare)
	analysis compare ${SEEKMETER_GATE:+--gate="$SEEKMETER_GATE"} ${SEEKMETER_OUT:+--out="$SEEKMETER_OUT"} \
		--runs="${SEEKMETER_RUNS-}"
	;;
query)
	[ -z "${SEEKMETER_RUNS-}" ] || run="--runs=$SEEKMETER_RUNS"
	analysis query ${SEEKMETER_FORMAT:+--format="$SEEKMETER_FORMAT"} \
		${SEEKMETER_WINDOW:+--window="$SEEKMETER_WINDOW"} ${SEEKMETER_SQL:+--sql="$SEEKMETER_SQL"} "$run"
	;;
import) analysis import ${SEEKMETER_OUT:+--out="$SEEKMETER_OUT"} "${SEEKMETER_TRACE-}" ;;
*)
	echo "seekmeter: analyse.sh: $1 is no job that reads finished runs" >&2
	exit 2
	;;
esac
