#!/bin/bash
# Runs every fuzz target of both modules, one after another: scripts/fuzz.sh MINUTES [PATTERN]. The targets share the
# minutes, compilation not included. PATTERN, an extended regular expression, chooses among lines DIRECTORY:NAME. Exit
# status 1: a target failed; its input is kept below its package's testdata/fuzz, and is a case of make test from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:?usage: scripts/fuzz.sh MINUTES [PATTERN]}
pattern=${2:-.}

mapfile -t targets < <(grep -roE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' --exclude-dir=.tools --exclude-dir=out . |
	sed -E 's,^\./(.*)/[^/]*:func ,\1:,' | grep -E -- "$pattern" | LC_ALL=C sort)
seconds=$((minutes * 60 / (${#targets[@]} > 0 ? ${#targets[@]} : 1)))
if ((seconds < 1)); then
	echo "fuzz: ${#targets[@]} targets share $minutes minutes: each needs a second" >&2
	exit 2
fi
echo "fuzz: ${#targets[@]} targets, $seconds s each"
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# ends_at_its_time OUTPUT: Go reports the end of the fuzzing time as a failure now and then
# (golang/go issue 75804). Then there is no failing input, and no other reason.
ends_at_its_time() {
	! grep -qE 'Failing input written to|panic:|fatal error:' "$1" &&
		[[ $(grep -A 1 -E '^--- FAIL' "$1" | grep -v '^--' | tr -d ' ') == 'contextdeadlineexceeded' ]]
}

failed=0
for target in "${targets[@]}"; do
	directory=${target%:*} name=${target##*:} module=.
	if [[ $directory == eval/* ]]; then module=eval directory=${directory#eval/}; fi
	if go test -C "$module" -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" -parallel 1 "./$directory" >"$output" 2>&1; then
		echo "$target: $(grep -oE 'execs: [0-9]+' "$output" | tail -1)"
	elif ends_at_its_time "$output"; then
		echo "$target: $(grep -oE 'execs: [0-9]+' "$output" | tail -1), and its worker did not end in time"
	else
		failed=1
		cat "$output"
		echo "$target: failed"
	fi
done
exit "$failed"
