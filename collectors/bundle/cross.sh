#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# cross.sh: compile everything for the architecture ARCH (arm64), and make a bundle of it by bundle.sh.
#
# From the Makefile: ARCH, CFLAGS and BPF_CFLAGS. Exit status: 0, or 3 with what is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
triplet=aarch64-linux-gnu
export CC=$triplet-gcc TOOLS=$triplet-

packages="gcc-$triplet libc6-dev-arm64-cross"
for library in libbpf:libbpf libelf:libelf libz:zlib1g libzstd:libzstd libjansson:libjansson; do
	case $("$CC" -print-file-name="${library%:*}.a" 2>/dev/null) in
	/*) ;;
	*) packages+=" ${library#*:}-dev:arm64" ;;
	esac
done
if [[ $packages = *:arm64* ]] || ! command -v "$CC" >/dev/null; then
	echo "seekmeter: a bundle for arm64 needs packages of that architecture (Debian's names), as root:" >&2
	echo "seekmeter: dpkg --add-architecture arm64 && apt-get update && apt-get install $packages" >&2
	exit 3
fi

mkdir -p build/bundle
place=$(mktemp -d build/bundle/.cross.XXXXXX)
trap 'rm -rf "$place"' EXIT
echo "seekmeter: compiling for $ARCH" >&2

for source in bpf/*/*.bpf.c; do
	object=$place/${source%.c}.o
	mkdir -p "${object%/*}"
	# shellcheck disable=SC2086 # one word an option
	clang $BPF_CFLAGS -c "$source" -o "$object"
	name=$(basename "$source" .bpf.c)
	bpftool gen skeleton "$object" name "${name}_bpf" >"${object%.o}.skel.h.new"
	mv "${object%.o}.skel.h.new" "$place/${source%.bpf.c}.skel.h"
done

# objects SOURCE…: print their objects; what does not exist is left out
objects() {
	local source
	for source in "$@"; do
		[ ! -e "$source" ] || echo "$place/${source%.c}.o"
	done
}

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
define="-DSEEKMETER_VERSION='\"$version\"'"
include="-I bpf -I collectors -I workloads/generators -I workloads/drives/native"
for folder in "$place"/bpf/*/; do
	include+=" -I $folder"
done
TRACER=$(objects collectors/blktrace/native/*.c)
RECORDER=$(objects collectors/*/*.c collectors/*/*/*.c | grep -v /blktrace/native/)
COMMON=$(objects workloads/generators/common/*/*.c)
GENERATORS=$(objects workloads/generators/*.c)
DRIVE_SERVER=$(objects workloads/drives/native/server/*.c workloads/drives/native/model/*.c)
for object in $TRACER $RECORDER $COMMON $GENERATORS $DRIVE_SERVER $(objects workloads/generators/*/*.c); do
	mkdir -p "${object%/*}"
	echo "${object#"$place"/}"
done | sort -u | sed 's/\.o$//' |
	xargs -P "$(nproc)" -I '{}' sh -c "$CC $CFLAGS $define $include -c '{}.c' -o '$place/{}.o'"
export TRACER RECORDER COMMON GENERATORS DRIVE_SERVER
collectors/bundle/bundle.sh
