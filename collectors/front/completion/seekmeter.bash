# SPDX-License-Identifier: BSD-2-Clause
# Bash completion of `seekmeter JOB VARIABLE=value …`. Bash splits words at "=" and ":": they are joined again.
_seekmeter() {
	local line=${COMP_LINE:0:COMP_POINT} words word candidate
	read -r -a words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	word=${words[-1]}
	COMPREPLY=()
	while IFS= read -r candidate; do
		[ -n "$candidate" ] || continue
		# Readline replaces only what follows the last "=" or ":".
		local typed=${word%"${word##*[=:]}"}
		COMPREPLY+=("${candidate#"$typed"}")
	done < <(seekmeter --complete "${words[@]:1}" 2>/dev/null)
	if [ ${#COMPREPLY[@]} -eq 0 ] && [[ $word = *=* ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "${word#*=}")
		compopt -o filenames
	elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} = *= ]]; then
		compopt -o nospace
	fi
}
complete -F _seekmeter seekmeter
