#!/bin/bash
# Prints the share of a CPU that each process of an idle cluster takes: three XDP nodes and a controller in a lab.
# Usage, as root: scripts/idle.sh [SHARDS [SECONDS]]
set -euo pipefail
netcraq=$(dirname "$0")/../bin/netcraq
shards=${1:-16} seconds=${2:-20}

up=(lab up --name idle --managed --controllers 1 --nodes 3 --topology line --wires=false --shards "$shards")
trap '"$netcraq" lab down --name idle >/dev/null' EXIT
"$netcraq" "${up[@]}" >/dev/null
sleep 10 # chains form

# used prints a line for each agent and controller of the lab: its ID, its name, its CPU time in ns.
used() {
	local stat pid
	for pid in $(pgrep -f 'netcraq (node|controller) .*labs/idle/'); do
		stat=$(cat "/proc/$pid"/task/*/schedstat | awk '{ns += $1} END {printf "%d", ns}')
		echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline" | grep -oP -- '--name \K\S+') $stat"
	done
}
before=$(used)
sleep "$seconds"
used | awk -v before="$before" -v s="$seconds" '
	BEGIN {n = split(before, f); for (i = 1; i <= n; i += 3) was[f[i]] = f[i + 2]}
	{cpu = ($3 - was[$1]) / s / 1e7; sum += cpu; printf "%-6s %5.2f %%\n", $2, cpu}
	END {printf "%-6s %5.2f %%\n", "all", sum}'
