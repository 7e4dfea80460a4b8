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
failed=0
for target in "${targets[@]}"; do
	directory=${target%:*} name=${target##*:} module=.
	if [[ $directory == eval/* ]]; then module=eval directory=${directory#eval/}; fi
	if go test -C "$module" -run '^$' -fuzz "^$name\$" -fuzztime "${seconds}s" -parallel 1 "./$directory" >"$output" 2>&1; then
		echo "$target: $(grep -oE 'execs: [0-9]+' "$output" | tail -1)"
	else
		failed=1
		cat "$output"
		echo "$target: failed"
	fi
done
exit "$failed"
