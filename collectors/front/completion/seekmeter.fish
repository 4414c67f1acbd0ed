# SPDX-License-Identifier: BSD-2-Clause
# fish completion of `seekmeter JOB VARIABLE=value …`.
function __seekmeter_candidates
    set -l words (commandline -opc) (commandline -ct)
    seekmeter --complete $words[2..-1] 2>/dev/null
end
complete -c seekmeter -f -a '(__seekmeter_candidates)'
