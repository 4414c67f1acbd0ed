#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# bundle.sh: make build/bundle/seekmeter-VERSION-ARCH.tar.gz of what make has compiled, and print its checksum and name.
#
# From the Makefile: ARCH (x86_64, arm64), CC, TOOLS (prefix of ld, objcopy, strip), and the objects RECORDER, TRACER,
# DRIVE_SERVER, COMMON and GENERATORS. All programs are static. Two builds of one commit are byte for byte the same:
# files are sorted and have the time of the commit (or SOURCE_DATE_EPOCH).
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p "build/bundle/$ARCH"
out=$(mktemp -d "build/bundle/.new.XXXXXX") # two builds at once, or a killed one, leave nothing half made
trap 'rm -rf "$out"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
name=seekmeter-$version-$ARCH
seconds=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null || echo 0)}
export LC_ALL=C
umask 022

# No build id: it would depend on the folder, which the debugging data that -s leaves out has.
static=(-static -s '-Wl,--build-id=none')

# libbpf's ELF library packs sections with zstd where it is new enough (elfutils 0.189).
zstd=
case $("$CC" -print-file-name=libzstd.a) in /*) zstd=-lzstd ;; esac

# link PROGRAM WORD…
link() {
	"$CC" "${static[@]}" "${@:2}" -o "$1" || {
		echo "seekmeter: bundle: $1 could not be linked statically (above is why): are the static libraries there?" >&2
		exit 3
	}
}

# one_of NAME OBJECT…: a generator's objects as one, in which only its main has a name for others
one_of() {
	"${TOOLS}ld" -r -o "$out/parts/objects" "${@:2}"
	"${TOOLS}objcopy" --strip-debug --redefine-sym "main=$1_main" --keep-global-symbol="$1_main" \
		"$out/parts/objects" "$out/parts/$1.o"
}

mkdir -p "$out/parts" "$out/tree/$name/build/generators"
tree=$out/tree/$name

# shellcheck disable=SC2086 # one word an object
link "$out/recorder" $RECORDER -lbpf -lelf -lz $zstd -lm -pthread
# shellcheck disable=SC2086
link "$out/blk-tracer" $TRACER -lbpf -lelf -lz $zstd
# shellcheck disable=SC2086
link "$out/drive-server" $DRIVE_SERVER -lm -pthread
for program in $GENERATORS; do
	more=${program%.o}
	# shellcheck disable=SC2046,SC2086
	one_of "${more##*/}" "$program" $(for source in workloads/generators/"${more##*/}"/*.c; do
		[ ! -e "$source" ] || echo "$more/$(basename "$source" .c).o"
	done) $COMMON
	echo "GENERATOR(${more##*/})" >>"$out/parts/generators.list"
done
link "$out/generators" -std=c11 -O2 -Wall -Wextra -Werror "-DGENERATOR_LIST=\"$PWD/$out/parts/generators.list\"" workloads/bundle/generators.c \
	"$out"/parts/*.o -ljansson -lz -lm -pthread

install -m 755 "$out"/recorder "$out"/blk-tracer "$out"/drive-server "$tree/build"
install -m 755 "$out/generators" "$tree/build/generators/all"
for program in $GENERATORS; do
	ln -s all "$tree/build/generators/$(basename "$program" .o)"
done
install -m 755 collectors/front/seekmeter "$tree/seekmeter"
install -m 644 LICENSE "$tree"
find workloads bpf/scripts \( -name '*.toml' -o -name '*.csv' -o -name '*.bt' -o -path 'workloads/datasets/*' \
	-o -path workloads/cleanup/guard.py \) -type f ! -name '*.md' ! -path '*/__pycache__/*' | sort |
	while read -r file; do install -D -m 644 "$file" "$tree/$file"; done
collectors/front/python.sh -m collectors.bundle.session "$tree/session.pyz" "$seconds"
chmod 644 "$tree/session.pyz"
echo "$version" >"$tree/version"
collectors/front/python.sh -c 'from collectors.trace.sysinfo import tool_versions; print(tool_versions()["seekmeter"])' \
	>"$tree/installed-from"

archive=build/bundle/$name.tar.gz
tar --format=gnu --sort=name --mtime="@$seconds" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
	-C "$out/tree" -cf - "$name" | gzip -9n >"$out/archive"
mv -f "$out/archive" "$archive"
for program in recorder blk-tracer drive-server generators; do
	mv -f "$out/$program" "build/bundle/$ARCH/$program"
done
sha256sum "$archive"
