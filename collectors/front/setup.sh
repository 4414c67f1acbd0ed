#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs what the jobs need and this machine lacks: Debian packages and the Python packages in .venv.
#
#   setup.sh run JOB   for `make trace`: compiler, BPF tools, .venv, and what FS=, WL=, COLLECT=, WITH= and VM= need
#   setup.sh cluster JOB  the same, and what ON= and `make worker` need: Dask, openssl, ssh
#   setup.sh test JOB  the same, what the tests and the lint need, and what every value of those options could need
#   setup.sh python    print the path of a Python for the jobs that need no setup (plan, list, doctor, help)
#
# JOB's options (in the environment, see the Makefile) are checked before anything is installed for them.
# A package counts as installed when the program or file that we use of it exists, so that other distributions and
# hand-made installations pass. The check of the lists below starts no process, so it is made every time. .venv is
# the work of setup_venv.sh.
# Prints what it installs before it does, and nothing otherwise.
# Exit status: 0, 2 (wrong options), 3 (this machine cannot, and why).
set -euo pipefail
cd "$(dirname "$0")/../.."
make="make"
[ -e Makefile ] || make="seekmeter" # installed
# Debian keeps these folders out of an ordinary user's PATH; mkfs.* and bpftool live there.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

# Package, then a command or file of it. {include}: also in the multiarch directory; {machine}: uname -m; {static}:
# a command that links no library; {clang}: clang's own libraries; {postgresql}: PostgreSQL's server programs.
for_run='
clang          clang
bpftool        bpftool
gcc            gcc
libc6-dev      {include}/stdio.h
libbpf-dev     {include}/bpf/bpf_helpers.h
libelf-dev     {include}/libelf.h
zlib1g-dev     {include}/zlib.h
libzstd-dev    {include}/zstd.h
libjansson-dev {include}/jansson.h
util-linux     flock
mount          losetup
'
for_installed='
util-linux     flock
mount          losetup
'
for_vm='
qemu-system-x86 qemu-system-{machine}
busybox-static {static}/busybox
kmod           depmod
file           file
'
for_cluster='
openssl        openssl
openssh-client ssh
'
for_test='
blktrace       blkparse
trace-cmd      trace-cmd
libclang-rt-dev {clang}/fuzzer
shellcheck     shellcheck
strace         strace
git            git
procps         ps
passwd         useradd
iproute2       ip
gpg            gpg
gpg-agent      gpg-agent
util-linux-extra fincore
sudo           sudo
xz-utils       xz
postmark       postmark
rsync          rsync
sqlite3        sqlite3
rocksdb-tools  db_bench
postgresql     {postgresql}/initdb
chromium       chromium
'

say() { echo "seekmeter: $*" >&2; }

# cannot MESSAGE: exit, as this machine lacks something that could not be installed
cannot() {
	say "$*"
	exit 3
}

# have PROGRAM: `command -v` alone also finds a file that cannot be executed
have() { [ -x "$(command -v "$1")" ]; }

# good_python PROGRAM: whether it is Python 3.11 or newer, with its standard library (python3-minimal has not all)
good_python() {
	have "$1" && "$1" -c 'import dataclasses, resource, sys, tomllib; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Print the path of the Python to use. The system's comes first: other users and root can read it.
find_python() {
	local program
	for program in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
		if good_python "$program"; then
			command -v "$program"
			return
		fi
	done
	return 1
}

# is_there COMMAND-OR-FILE
is_there() {
	case $1 in
	'{include}'/*)
		local folder
		for folder in /usr/include /usr/include/*-linux-gnu /usr/local/include; do
			[ -e "$folder${1#\{include\}}" ] && return
		done
		return 1
		;;
	'{clang}'/*) compgen -G "/usr/lib*/clang/*/lib/*/libclang_rt.${1#\{clang\}/}*.a" >/dev/null ||
		compgen -G "/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.${1#\{clang\}/}*.a" >/dev/null ;;
	'{postgresql}'/*) compgen -G "/usr/lib/postgresql/*/bin/${1#\{postgresql\}/}" >/dev/null || have "${1#\{postgresql\}/}" ;;
	'{static}'/*) have "${1#\{static\}/}" && ! ldd "$(command -v "${1#\{static\}/}")" >/dev/null 2>&1 ;;
	*) have "${1/\{machine\}/$(uname -m)}" ;;
	esac
}

# missing_of LIST: print the packages whose command or file is missing
missing_of() {
	local package thing
	while read -r package thing; do
		[ -z "$package" ] || is_there "$thing" || echo "$package"
	done <<<"$1"
}

# as_root COMMAND…: run it as root, through sudo if need be
as_root() {
	if [ "$EUID" -eq 0 ]; then
		"$@"
	else
		sudo -- "$@"
	fi
}

# install_packages PACKAGE…: with apt-get, as root; exits 3 where that is not possible
install_packages() {
	local packages="$*"
	if ! have apt-get; then
		say "these packages are missing (Debian's names): $packages"
		cannot "there is no apt-get here to install them with: install them yourself, then run $make again"
	fi
	if [ "$EUID" -ne 0 ] && ! have sudo; then
		say "these packages are missing: $packages"
		cannot "installing them needs root and sudo is not installed: run \`apt-get install $packages\` as root, or install sudo"
	fi
	say "installing these packages with apt-get: $packages"
	if [ "$EUID" -ne 0 ]; then
		say "this needs root, so it goes through sudo"
		sudo -- true || cannot "sudo does not let this user become root: run \`apt-get install $packages\` as root"
	fi
	export DEBIAN_FRONTEND=${DEBIAN_FRONTEND:-noninteractive}
	case " $packages " in *" postgresql "*)
		without_cluster "$@"
		return
		;;
	esac
	apt_install "$@"
}

# apt_install PACKAGE…
apt_install() {
	# The package lists may be absent (a fresh container) or stale: install, and if that fails update them first.
	if ! as_root env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null 2>&1; then
		as_root apt-get update -qq </dev/null >/dev/null ||
			cannot "apt-get update failed (above is why): mend that, or install yourself: $*"
		as_root env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" apt-get install -qq -y --no-install-recommends "$@" </dev/null >/dev/null ||
			cannot "apt-get could not install (above is why): $*"
	fi
	hash -r
}

# without_cluster PACKAGE…: keep PostgreSQL's package from creating a database and a service that runs it
without_cluster() (
	folder=/etc/postgresql-common/createcluster.d file=$folder/seekmeter-setup.conf
	trap 'as_root rm -f "$file"; as_root rmdir -p --ignore-fail-on-non-empty "$folder" 2>/dev/null || true' EXIT
	as_root mkdir -p "$folder"
	echo 'create_main_cluster = false' | as_root tee "$file" >/dev/null
	apt_install "$@"
)

# link_mtab WHAT: mkfs.nilfs2 of nilfs-utils 2.2.11 fails without /etc/mtab. systemd makes this link at boot; a minimal
# root, as of a container, has none.
link_mtab() {
	if [ -e /etc/mtab ] || ! have mkfs.nilfs2 || [[ $1 != test && ${SEEKMETER_FS-} != *nilfs2* ]]; then
		return
	fi
	say "linking /etc/mtab to /proc/self/mounts, as mkfs.nilfs2 looks there for what is mounted"
	as_root ln -s ../proc/self/mounts /etc/mtab ||
		say "that failed (above is why): run \`ln -s ../proc/self/mounts /etc/mtab\` as root"
}

# check_options PYTHON JOB: exits 2 if the options are wrong, 3 if this user or machine cannot run the job; prints
# "vm" if it runs in a virtual machine
check_options() {
	[[ -z ${SEEKMETER_WORDS:-} && $2 != trace && $2 != watch && $2 != sweep && $2 != study && $2 != verify ]] || "$1" -B -m collectors.front.check "$2"
}

# missing_for_job PYTHON WHAT JOB: print the missing packages that FS=, WL=, COLLECT= and WITH= need
missing_for_job() {
	local purpose=("$2" "$3")
	if [ "$2" = test ]; then
		purpose=(test)
	elif [ "$3" != verify ] && [ -z "${SEEKMETER_FS:-}${SEEKMETER_WL:-}${SEEKMETER_COLLECT:-}${SEEKMETER_WITH:-}" ]; then
		return 0 # the collectors that are on by default need no package: this spares a Python
	fi
	"$1" -B -m collectors.front.packages "${purpose[@]}"
}

# setup WHAT JOB
setup() {
	local list=$for_run missing=() python more where venv
	if ! python=$(find_python); then
		install_packages python3 python3-venv
		python=$(find_python) || cannot "no Python 3.11 or newer was found: install one (Debian 12 has it)"
	fi
	where=$(check_options "$python" "$2") || exit $?
	[ -e Makefile ] || list=$for_installed # an installation has nothing to compile
	[ "$1" = run ] || list+=$for_cluster
	[ "$1" != test ] || list+=$for_test$for_vm
	[ "$where" != vm ] || list+=$for_vm
	# shellcheck disable=SC2207 # one word a package
	missing+=($(missing_of "$list"))
	more=$(missing_for_job "$python" "$1" "$2") || exit $?
	# shellcheck disable=SC2206 # one word a package
	missing+=($more)
	[ -x .venv/bin/python ] || "$python" -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
	if [ "${#missing[@]}" -gt 0 ]; then
		# Meanwhile: pip uses the CPU that apt leaves.
		collectors/front/setup_venv.sh "$python" "$1" &
		venv=$!
		# shellcheck disable=SC2064 # this one
		trap "kill $venv 2>/dev/null || true" EXIT
		install_packages "${missing[@]}"
		trap - EXIT
		wait "$venv" || exit $?
	else
		collectors/front/setup_venv.sh "$python" "$1"
	fi
	link_mtab "$1"
}

case ${1:-} in
run | cluster | test)
	# One setup at a time in this tree: a second one waits, and then has nothing to do.
	if have flock; then
		exec 9<requirements.txt
		flock 9
	fi
	setup "$1" "${2:-trace}"
	;;
python)
	if [ -x .venv/bin/python ] && good_python .venv/bin/python; then
		echo .venv/bin/python
	else
		find_python || cannot "python3 (3.11 or newer) is missing: \`$make setup\` installs it, or \`apt-get install python3\` as root"
	fi
	;;
*) cannot "setup.sh knows run, cluster, test and python, not '${1:-}'" ;;
esac
