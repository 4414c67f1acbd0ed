#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs the pinned Python packages, with hashes, into .venv.
#
#   setup_venv.sh PYTHON run   those of requirements.txt
#   setup_venv.sh PYTHON cluster  those of requirements-cluster.txt: the same, and Dask for runs on several machines
#   setup_venv.sh PYTHON test  those of requirements-test.txt: the same, and what tests, lint and bench need
#
# A .venv for tests also serves runs and clusters, one for clusters also runs; a smaller one is extended. A stamp names the Python and the lists
# that .venv was made from: while it matches, pip is not called.
# Exit status: 0, or 3 with a message (the packages cannot be installed).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 what=$2

# stamp LIST…
stamp() {
	echo "$("$python" --version) $python $(cat "$@" | sha256sum)"
}

cannot() {
	echo "seekmeter: $*" >&2
	exit 3
}

case $what in
run) list=requirements.txt ;;
*) list=requirements-$what.txt ;;
esac
run=$(stamp requirements.txt)
cluster=$(stamp requirements.txt requirements-cluster.txt)
test=$(stamp requirements.txt requirements-test.txt)
if [ -x .venv/bin/python ]; then
	[ "$(cat .venv/seekmeter-test 2>/dev/null)" != "$test" ] || exit 0
	[ "$what" = test ] || [ "$(cat .venv/seekmeter-cluster 2>/dev/null)" != "$cluster" ] || exit 0
	[ "$what" != run ] || [ "$(cat .venv/seekmeter-run 2>/dev/null)" != "$run" ] || exit 0
fi

# The installed size was measured when the list was made, and is in its first lines.
size=$(sed -n 's/^# Installed: \([0-9]* MB\).*/\1/p' "$list")
echo "seekmeter: installing the Python packages of $list into .venv ($(grep -c == "$list") packages, $size in all)" >&2
mkdir -p "$(readlink -m .venv)" || cannot "could not make .venv (above is why)" # it may be a link to another place
# Update in place where pip works, so that another shell can go on using .venv.
.venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv ||
	cannot "could not make .venv (above is why)"
rm -f .venv/seekmeter-*
# Remove packages of older lists, which pip would keep.
stale=$(.venv/bin/python -m pip freeze | sed 's/[= ].*//; s/[_.]/-/g; s/.*/\L&/' |
	grep -vxF "$(sed -n 's/==.*//p' requirements-test.txt)" || true)
# shellcheck disable=SC2086 # one word a package
[ -z "$stale" ] || .venv/bin/python -m pip uninstall --quiet --yes $stale
.venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check --no-compile --require-hashes -r "$list" ||
	cannot "pip could not install $list (above is why): check the network, then start the job again"
# pip compiles on one CPU, and not at all with PYTHONDONTWRITEBYTECODE; without compiled files each report takes 5 s
# longer. The packages' own tests, a quarter of the files, are never run here.
.venv/bin/python -m compileall -q -j 0 -x '/tests/' .venv/lib >/dev/null || true
echo "$run" >.venv/seekmeter-run
case $what in
cluster) echo "$cluster" >.venv/seekmeter-cluster ;;
test) echo "$test" >.venv/seekmeter-test ;;
esac
