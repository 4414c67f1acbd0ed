#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Records the example anew, as root on an otherwise idle machine: make.sh run, or make.sh sweep.
# report.txt names paths, so the tree's HEAD is cloned, built and used as /opt/seekmeter, in a mount namespace of its own.
# The run directories stay in runs/ of this tree.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)

if [[ ${SEEKMETER_APART-} != 1 ]]; then
	exec env SEEKMETER_APART=1 unshare --mount --propagation private "$0" "$@"
fi

mount -t tmpfs -o mode=755 none /opt
git clone --quiet "$tree" /opt/seekmeter
cd /opt/seekmeter
ln -s "$(readlink -f "$tree/.venv")" .venv
mkdir -p "$tree/runs" runs
mount --bind "$tree/runs" runs
make build

case ${1-run} in
run)
	make trace FS=ext3 WL=compilebench
	make movie RUN=runs/latest
	cp runs/latest/{report.txt,detail.txt,iograph.png} "$here"
	;;
sweep)
	out=runs/$(date +%Y%m%d-%H%M%S)-example
	make sweep FS="ext4 xfs btrfs" WL=createdelete SCALE=quick ARGS="-n 10000 -o 10000" TRACING=both OUT="$out"
	cp "$out/sweep.png" "$here"
	;;
esac
