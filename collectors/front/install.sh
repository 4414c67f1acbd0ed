#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# install.sh install|uninstall: make install, or take all of it away again.
#
#   PREFIX (default /usr/local)  lib/seekmeter, bin/seekmeter, share/man, completions, share/doc
#   DESTDIR                      a root to install below, for packages; the installed files don't contain it
#
# The installation is the tree without bpf/, tests/ and C sources, with the programs that make build made. Python's
# packages go to lib/seekmeter/.venv, by the first job or `seekmeter setup`; uninstall removes them too, and no run.
# Exit status: 0, 2 (wrong options), 3 (a file cannot be written).
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022
prefix=${SEEKMETER_PREFIX:-/usr/local} dest=${SEEKMETER_DESTDIR:-}
[[ $prefix = /* ]] || {
	echo "seekmeter: PREFIX=$prefix is no absolute path: write it like PREFIX=/usr/local" >&2
	exit 2
}
prefix=${prefix%/}
home=$prefix/lib/seekmeter
command=$dest$prefix/bin/seekmeter
page=$dest$prefix/share/man/man1/seekmeter.1
bash_words=$dest$prefix/share/bash-completion/completions/seekmeter
zsh_words=$dest$prefix/share/zsh/site-functions/_seekmeter
fish_words=$dest$prefix/share/fish/vendor_completions.d/seekmeter.fish
docs=$dest$prefix/share/doc/seekmeter

# A package's builder strips programs itself, and keeps what it takes from them.
strip=()
[ -n "$dest" ] || strip=(-s)

remove() {
	# What setup made there, root's compiled files included, goes with it.
	rm -rf "$dest$home" "$docs"
	rm -f "$command" "$page" "$page.gz" "$bash_words" "$zsh_words" "$fish_words"
}

if [ "$1" = uninstall ]; then
	remove
	exit 0
fi
# An older installation keeps no file that this one lacks; its Python packages stay.
if [ -d "$dest$home" ]; then
	find "$dest$home" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
fi
install -d "$dest$home/build" "$dest$prefix/bin" "${page%/*}" "${bash_words%/*}" "${zsh_words%/*}" "${fish_words%/*}" \
	"$docs"
find collectors workloads analysis -name __pycache__ -prune -o -type f ! -name '*.[ch]' -print0 |
	while IFS= read -r -d '' file; do
		mode=644
		[ ! -x "$file" ] || mode=755
		install -D -m "$mode" "$file" "$dest$home/$file"
	done
install -m 644 requirements*.txt pyproject.toml "$dest$home"
for program in recorder blk-tracer guest-init import-blktrace text-to-blktrace drive-server drive-cost; do
	install "${strip[@]}" -m 755 "build/$program" "$dest$home/build/$program"
done
install "${strip[@]}" -m 644 build/spill.so "$dest$home/build/spill.so"
install -d "$dest$home/build/generators"
install "${strip[@]}" -m 755 build/generators/* "$dest$home/build/generators"
git --no-optional-locks -c safe.directory="$PWD" describe --always --dirty 2>/dev/null >"$dest$home/installed-from" ||
	echo "a source package" >"$dest$home/installed-from"
chmod 644 "$dest$home/installed-from"
sed "s|^home=@HOME@$|home=$(printf '%q' "$home" | sed 's/[&|\\]/\\&/g')|" collectors/front/installed.sh >"$command"
chmod 755 "$command"
rm -f "$dest$home/collectors/front/installed.sh" "$dest$home/collectors/front/install.sh"
python=$(collectors/front/setup.sh python)
# By the installed code, whose words are those of seekmeter, not of make.
PYTHONDONTWRITEBYTECODE=1 "$python" -P "$dest$home/collectors/front/start.py" collectors.front.man >"$page"
chmod 644 "$page"
install -m 644 collectors/front/completion/seekmeter.bash "$bash_words"
install -m 644 collectors/front/completion/seekmeter.zsh "$zsh_words"
install -m 644 collectors/front/completion/seekmeter.fish "$fish_words"
install -m 644 README.md LICENSE "$docs"
install -d "$docs/docs/studies"
install -m 644 docs/*.md "$docs/docs"
install -m 644 docs/studies/* "$docs/docs/studies"
[ -n "$dest" ] || echo "seekmeter: installed $command; Python's packages come with the first job, or seekmeter setup" >&2
