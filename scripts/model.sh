#!/bin/bash
# Checks the model of the protocol (spec/model) with Spin: all runs with all rules hold, and every run that leaves a rule
# out shows a violation that clients see. `scripts/model.sh show NAME` prints the violation of such a run, step by step.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$PWD/spec/model/chain.pml
work=$PWD/out/model
log2_states=22    # of the hash table; it is no limit
depth=1000        # more is an error
memory_mib=3500   # more is an error

readonly whole='-DCHANGE_DURING_CHANGE'
readonly four="-DNODES=4 -DFIRST_CHAIN=15 -DEPOCHS=3 $whole"
readonly grow="-DGROW -DFIRST_CHAIN=1 $whole"
readonly join="-DJOIN -DFIRST_CHAIN=5 $whole"

# runs lists the runs: name, description, size and switches. A name "without-..." must be violated.
runs() {
	cat <<-LIST
		one-change       | 3 nodes, 3 writes, 1 removed              |
		one-change-adds  | the same, all writes ADD                  | -DADDS=14
		one-change-relay | the same, ACKs relayed                    | -DRELAY
		two-changes      | 3 nodes, 3 writes, 2 removed              | -DEPOCHS=3 -DVERSIONS=5 $whole
		four-nodes       | 4 nodes, 2 writes, 2 removed              | -DOPS=2 $four
		join             | 2 nodes, 3 writes, 1 joins, 1 removed     | -DEPOCHS=3 $join
		join-and-leave   | 2 nodes, 2 writes, 1 joins, 2 removed     | -DEPOCHS=4 -DOPS=2 $join
		grow             | 1 node, 3 writes, 1 joins, 1 removed      | -DEPOCHS=4 $grow
		without-W2       | a retry is a new write                    | -DWITHOUT_W2
		without-W5       | ADD on a dirty object                     | -DWITHOUT_W5
		without-W8       | any ACK makes the object clean            | -DWITHOUT_W8
		without-R1       | a frozen tail answers dirty reads         | -DWITHOUT_R1
		without-R4       | reads without a lease                     | -DWITHOUT_R4
		without-C1       | no wait for the lease of who left         | -DWITHOUT_C1
		without-C2       | a learner may lead                        | -DWITHOUT_C2 -DEPOCHS=3 -DOPS=2 $join
		without-C2-tail  | no tail, but takes what it has for committed | -DWITHOUT_C2_TAIL
		without-C3       | a learner gets its lease before the copy  | -DWITHOUT_C3 -DEPOCHS=3 -DOPS=2 $join
	LIST
}

# quick are the runs with all rules that CI has time for; it has time for all that leave a rule out.
quick() { [[ $1 == one-change* || $1 == two-changes || $1 == join || $1 == grow ]] || violated "$1"; }

# violated says whether a run leaves a rule out.
violated() { [[ $1 == without-* ]]; }

# switches prints the switches of a run; clients alone judge those that leave a rule out.
switches() {
	runs | awk -F'|' -v name="$1" '{ gsub(/ /, "", $1) } $1 == name { print $3 }'
	if violated "$1"; then echo -DCLIENTS_VIEW; fi
}

# build makes the checker of a run. Those of complete runs are worth more of the compiler's time.
build() {
	local name=$1 flags=(-O2) && shift
	if violated "$name"; then flags=(-O1 -DREACH); fi # REACH: the shortest violation
	rm -rf "${work:?}/$name" && mkdir -p "$work/$name" && cd "$work/$name"
	spin -a "$@" "$model" >build.txt 2>&1 && [ ! -s build.txt ] &&
		gcc -w "${flags[@]}" -DSAFETY -DNOREDUCE "-DMEMLIM=$memory_mib" -o checker pan.c >build.txt 2>&1
}

# check runs a checker and prints its row of the table; it fails if the result is not the one it must be.
check() {
	local name=$1 what=$2 flags=() result good=true
	read -ra flags < <(switches "$name" | xargs)
	if ! (build "$name" "${flags[@]}"); then
		cat "$work/$name/build.txt" >&2
		echo "model: $name does not compile" >&2
		return 1
	fi
	local args=(-n "-m$depth" "-w$log2_states")
	if violated "$name"; then args+=(-i); fi
	(cd "$work/$name" && ./checker "${args[@]}" >result.txt 2>&1) || true
	result=$(verdict "$name" "${flags[@]}")
	case $result in
	holds) if violated "$name"; then good=false result='holds, but must not'; fi ;;
	violated:*) violated "$name" || good=false ;;
	*) good=false ;;
	esac
	printf '%-17s %-42s %9s %6s %8s %6s  %s\n' "$name" "$what" "$(field 'states, stored' 0)" "$(reached "$name" "${flags[@]}")" \
		"$(field 'elapsed time' 1)" "$(field 'total actual memory' 0)" "$result"
	$good
}

# field prints the first number, with so many decimals, of the line with a text in the result of the run that is being checked.
field() { sed -n "/$1/ { s/[^0-9]*\([0-9.e+]*\).*/\1/p; q }" "$work/$name/result.txt" | xargs -r printf "%.$2f"; }

# reached prints the depth of the search, or how many steps a violation takes.
reached() {
	local name=$1 && shift
	if [ -e "$work/$name/chain.pml.trail" ]; then
		replay "$name" "$@" | grep -vc '^violated' || true
	else
		sed -n 's/.*depth reached \([0-9]*\).*/\1/p' "$work/$name/result.txt"
	fi
}

# verdict prints the result of a checker. Only a complete search holds.
verdict() {
	local name=$1 && shift
	if [ -e "$work/$name/chain.pml.trail" ]; then
		replay "$name" "$@" | grep -E '^(violated|limit):' || echo 'a process is stuck'
	elif ! grep -q 'errors: 0' "$work/$name/result.txt" || grep -Eq 'max search depth too small|Search not completed' "$work/$name/result.txt"; then
		echo 'the search came to no end'
	else
		echo holds
	fi
}

# replay prints the steps that lead to a violation.
replay() {
	local name=$1 && shift
	(cd "$work/$name" && spin -T -t -k chain.pml.trail "$@" "$model" 2>/dev/null | awk 'over { next } { print } /^(violated|limit):/ { over = 1 }')
}

show() {
	local name=$1 flags=()
	if [ ! -e "$work/$name/chain.pml.trail" ]; then
		echo "model: no violation of a run named '$name' is stored: run make model first; its first column has the names" >&2
		exit 1
	fi
	read -ra flags < <(switches "$name" | xargs)
	replay "$name" "${flags[@]}"
}

main() {
	local name what failed=()
	printf '%-17s %-42s %9s %6s %8s %6s  %s\n' run 'what it is' states depth seconds MiB result
	while IFS='|' read -r name what _; do
		read -r name <<<"$name" && read -r what <<<"$what"
		$1 "$name" || continue
		check "$name" "$what" </dev/null || failed+=("$name")
	done < <(runs)
	if [ ${#failed[@]} -gt 0 ]; then
		echo "model: wrong results: ${failed[*]}. \`scripts/model.sh show NAME\` prints a violation, out/model/NAME/result.txt has the output of Spin" >&2
		exit 1
	fi
}

case ${1-} in
'') main true ;;
quick) main quick ;;
show) show "${2-}" ;;
*) echo "usage: $0 [quick | show NAME]" >&2 && exit 2 ;;
esac
