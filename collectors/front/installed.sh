#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# seekmeter JOB VARIABLE=value …: Seekmeter, installed. The jobs and variables are those of make (seekmeter help).
#
# Runs go to runs/ in the working directory. install.sh writes the place of the installation into this file.
# Exit status: 0 done, 1 the run failed, 2 wrong words, 3 this machine can't.
set -euo pipefail
home=@HOME@
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
start=(-P "$home/collectors/front/start.py")

# plain ARGUMENT…: a Python with the standard library alone
plain() {
	local python
	python=$("$home/collectors/front/setup.sh" python) || exit $?
	[[ $python = /* ]] || python=$home/$python
	PYTHONDONTWRITEBYTECODE=1 exec "$python" "${start[@]}" "$@"
}

case ${1:-help} in
-V | --version | version)
	echo "seekmeter $(sed -n 's/^version = "\(.*\)"/\1/p' "$home/pyproject.toml") ($(cat "$home/installed-from"))"
	exit 0
	;;
-h | --help) set -- help ;;
--complete)
	shift
	plain collectors.front.complete "$@"
	;;
esac
job=${1:-help}
[ $# = 0 ] || shift

# Options of the user's environment are no words: only what is typed counts, as with make.
for name in $(compgen -v SEEKMETER_); do
	case $name in
	SEEKMETER_ROOT_PATH | SEEKMETER_SCRATCH) ;;
	*) unset "$name" ;;
	esac
done
words=()
for word in "$@"; do
	if ! [[ $word =~ ^[A-Z][A-Z_]*= ]]; then
		echo "seekmeter: $word is no word of $job: words are VARIABLE=value (seekmeter help)" >&2
		exit 2
	fi
	words+=("${word%%=*}")
	export "SEEKMETER_${word%%=*}=${word#*=}"
done
export SEEKMETER_WORDS="${words[*]-}" SEEKMETER_RUNS_IN="$PWD"

# ready WHAT: the words are right, and the packages that the job needs are there
ready() {
	"$home/collectors/front/setup.sh" "$1" "$job"
}

case $job in
trace | watch | sweep | study | verify)
	ready run
	exec "$home/collectors/front/record.sh" "$job"
	;;
report | movie | export | compare | query | import)
	ready run
	exec "$home/collectors/front/analyse.sh" "$job"
	;;
plan) plain collectors plan ;;
doctor) plain collectors.doctor ;;
list | help) plain "collectors.front.$job" ;;
setup) ready run ;;
check | test | test-all | lint | bench | kernels | build | clean | worker | bundle | install | uninstall)
	echo "seekmeter: $job is a job of the source tree: run make $job there" >&2
	exit 2
	;;
*) plain collectors.front.check "$job" ;;
esac
