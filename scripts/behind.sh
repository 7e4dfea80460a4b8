#!/bin/bash
# behind.sh LOG "TARGET..." COMMAND...: makes the target on CPUs that are idle otherwise, with its output in LOG, while
# the command runs. Fails if either does, and shows LOG if the target does. Ends the target if the command fails.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$1
read -ra target <<<"$2"
shift 2
idle=(chrt --idle 0)
"${idle[@]}" true 2>/dev/null || idle=(nice -n 19)
mkdir -p "$(dirname "$log")"
"${idle[@]}" make --no-print-directory "${target[@]}" >"$log" 2>&1 &
behind=$!
trap 'kill "$behind" 2>/dev/null; wait "$behind" || true' EXIT
"$@"
trap - EXIT
if ! wait "$behind"; then
	cat "$log"
	echo "make ${target[*]} has failed; this is its output" >&2
	exit 1
fi
