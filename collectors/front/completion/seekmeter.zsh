#compdef seekmeter
# SPDX-License-Identifier: BSD-2-Clause
# zsh completion of `seekmeter JOB VARIABLE=value …`.
local -a candidates wanting
candidates=(${(f)"$(seekmeter --complete ${words[2,CURRENT]} 2>/dev/null)"})
wanting=(${(M)candidates:#*=})
candidates=(${candidates:#*=})
if (( ${#candidates} + ${#wanting} )); then
	(( ${#wanting} )) && compadd -S '' -- $wanting
	(( ${#candidates} )) && compadd -- $candidates
elif [[ $words[CURRENT] == *=* ]]; then
	compset -P '*='
	_files
fi
