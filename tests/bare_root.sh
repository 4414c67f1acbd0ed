#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Try this tree's last commit on a bare Debian, or Ubuntu, of any release, on the kernel that runs.
#
#   tests/bare_root.sh SUITE [COMMAND…]     e.g. tests/bare_root.sh trixie
#                                                tests/bare_root.sh bookworm make trace FS=ext3 WL=compilebench SCALE=quick
#
# SUITE's smallest root (debootstrap's minbase) with ca-certificates, git and make is made once, in /var/tmp/bare/SUITE.
# A copy of it becomes / of a mount namespace; there a new clone of this tree, in root's home, runs COMMAND, by default
# `make test`, on a terminal that is this one. The exit status is COMMAND's.
#
# Needs root, debootstrap, 6 GB in /var/tmp, and the network as this machine has it: its archive's mirror (MIRROR=URL
# for that of another distribution), certificates, apt's and pip's settings, resolv.conf. apt's and pip's downloads
# are kept in /var/tmp/bare/cache. The first root takes a minute, each later run 10 s before COMMAND.
#
# Nothing is left: the mounts end with their namespace; processes, loop devices and files of the copy are ended,
# detached and removed, here or, where this script was killed, by the next one. What COMMAND left is said.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
place=/var/tmp/bare
export PATH="$PATH:/usr/sbin:/sbin"

say() { echo "bare root: $*" >&2; }
cannot() {
	say "$*"
	exit 3
}

# make_root: SUITE's base root, from the mirror and with the sources that this machine's own release has
make_root() {
	local name=$1 mirror uri release own lists
	# shellcheck source=/dev/null
	own=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# One line for each of main's lists: where it is, its release, its archive's label.
	# shellcheck disable=SC2016 # apt's own words
	lists=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | grep ' main$' | sort -u)
	mirror=${MIRROR:-$(sed -n "s/ $own main\$//p" <<<"$lists" | head -n 1)}
	[ -n "$mirror" ] || cannot "apt has no source of $own here: say the archive of $name with MIRROR=URL"
	say "making $place/$name from $mirror"
	rm -rf "$place/$name.part"
	debootstrap --variant=minbase --include=ca-certificates,git,make --cache-dir="$place/cache/apt-$name" \
		"$name" "$place/$name.part" "$mirror" >"$place/$name.log" || cannot "debootstrap failed: see $place/$name.log"
	if [ -z "${MIRROR:-}" ]; then # its updates too, as they are named here
		while read -r uri release _; do
			echo "deb $uri ${release/#"$own"/"$name"} main"
		done <<<"$lists" >"$place/$name.part/etc/apt/sources.list"
	fi
	rm -f "$place/$name.part"/var/cache/apt/archives/*.deb
	mv "$place/$name.part" "$place/$name"
}

# settings ROOT: the network as this machine has it
settings() {
	local file
	apt-config dump | grep -E '^Acquire::(https?|ftp|Retries|Check)' | grep -v ' "";' >"$1/etc/apt/apt.conf.d/99network" || true
	for file in /etc/resolv.conf /etc/pip.conf /root/.config/pip/pip.conf; do
		[ ! -e "$file" ] || install -D -m 644 "$file" "$1$file"
	done
	cp -a /usr/local/share/ca-certificates "$1/usr/local/share/"
	chroot "$1" update-ca-certificates >/dev/null 2>&1
}

# sweep COPY: end and remove what a run left; says what it is, and fails if that was more than files
sweep() {
	local copy=$1 id process device inode number left=0
	id=$(stat -c %d:%i "$copy")
	for process in /proc/[0-9]*; do
		[ "$(stat -Lc %d:%i "$process/root/" 2>/dev/null)" = "$id" ] || continue
		say "left running: $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)(${process#/proc/})"
		kill -KILL "${process#/proc/}" || true
		left=1
	done
	number=$(mountpoint -d "$(stat -c %m "$copy")")
	while read -r device inode; do
		[ -n "$(find "$copy" -xdev -inum "$inode" -print -quit)" ] || continue
		say "left attached: $device"
		losetup --detach "$device"
		left=1
	done < <(losetup --noheadings --list --output NAME,BACK-INO,BACK-MAJ:MIN | awk -v number="$number" '$3 == number { print $1, $2 }')
	rm -rf --one-file-system "$copy"
	return "$left"
}

# inside COPY COMMAND…: in a mount namespace of its own, make the copy / and run the command in a new clone
# shellcheck disable=SC2317 # it is called below, in that namespace
inside() {
	local copy=$1 folder
	mount --bind "$copy" "$copy"
	mount -t proc proc "$copy/proc"
	for folder in sys dev; do
		mount --rbind "/$folder" "$copy/$folder"
	done
	mount -t tmpfs -o mode=755 tmpfs "$copy/run"
	mkdir -p "$copy/root/.cache/pip" "$copy/lib/modules"
	mount --bind "$place/cache/apt-$suite" "$copy/var/cache/apt/archives"
	mount --bind "$place/cache/pip" "$copy/root/.cache/pip"
	if [ -d /lib/modules ]; then
		mount --bind -o ro /lib/modules "$copy/lib/modules"
	fi
	cd "$copy"
	mkdir .host
	pivot_root . .host
	umount --lazy /.host
	rmdir /.host
	cd /root/seekmeter
	exec "${@:2}"
}

[ $# -ge 1 ] || cannot "which release? tests/bare_root.sh SUITE [COMMAND…]"
suite=$1
shift
[ $# -gt 0 ] || set -- make test
[ "$EUID" -eq 0 ] || cannot "a root of its own needs root"
mkdir -p "$place/cache/apt-$suite" "$place/cache/pip"
# apt's downloads are one run's at a time.
exec 8>"$place/cache/apt-$suite.lock"
flock --nonblock 8 || { say "waiting for another run of $suite" && flock 8; }
if [ ! -d "$place/$suite" ]; then
	command -v debootstrap >/dev/null || cannot "debootstrap is missing: apt-get install debootstrap"
	make_root "$suite"
fi
for old in "$place/run-$suite".*; do
	[ ! -d "$old" ] || sweep "$old" || true
done
copy=$(mktemp -d "$place/run-$suite.XXXXXX")
chmod 755 "$copy"
trap 'status=$?; sweep "$copy" || exit "$((status ? status : 1))"' EXIT
trap : INT # which the command gets too, and ends in its own way
cp -a --reflink=auto "$place/$suite/." "$copy"
settings "$copy"
git -c safe.directory='*' clone --quiet --no-hardlinks "$tree" "$copy/root/seekmeter"
mapfile -t network < <(env | grep -iE '^(PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT|PROXY)|(https?|ftp|no|all)_proxy)=')
export -f inside
export place suite
unshare --mount setpriv --pdeathsig KILL bash -euc 'inside "$@"' inside "$copy" \
	env -i HOME=/root USER=root TERM="${TERM:-dumb}" "${network[@]}" \
	PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" 8>&- # the lock is this script's alone
