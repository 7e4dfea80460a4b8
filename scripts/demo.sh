#!/bin/bash
# Brings a chain of three nodes up, and an etcd that reads through it, writes and reads, shows who answered, and cleans up. As root the
# nodes are XDP programs in network namespaces; otherwise, or where XDP is not possible, they are sockets on loopback addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/bin:$PATH"
dir=$(mktemp -d)
lab=demo chain= etcd= data=

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'; else bold='' dim='' plain=''; fi

cleanup() {
	local status=$?
	trap - EXIT INT TERM
	[ -z "$chain" ] || { kill -INT "$chain" 2>/dev/null || true; wait "$chain" 2>/dev/null || true; }
	rm -rf "$dir"
	[ $status = 0 ] || echo "demo: failed" >&2
	exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

title() { printf '\n%s── %s%s\n' "$bold" "$1" "$plain"; }

# run shows a command and runs it.
run() {
	local words=()
	for word; do
		case $word in *\ *) word="'$word'" ;; esac
		words+=("$word")
	done
	printf '\n%s$ %s%s\n' "$dim" "${words[*]}" "$plain"
	"$@" 2>&1
}

# expect_exit runs a command that is to fail, with this exit status.
expect_exit() {
	local want=$1 got=0
	shift
	run "$@" || got=$?
	[ "$got" = "$want" ] || { echo "demo: exit status $got, not $want" >&2; exit 1; }
	printf '%s(exit status %d)%s\n' "$dim" "$got" "$plain"
}

# start_chain runs `netcraq up` beside this script and waits until it says that the chain is up.
start_chain() {
	printf '\n%s$ netcraq up --etcd%s\n' "$dim" "$plain"
	netcraq up --name $lab --etcd --etcd-listen 127.0.0.1:0 >"$dir/up" 2>"$dir/err" &
	chain=$!
	until grep -q '^Ctrl-C' "$dir/up"; do
		if ! kill -0 "$chain" 2>/dev/null; then
			cat "$dir/err" >&2
			chain=
			exit 1
		fi
		read -rt 0.1 <> <(:) || true
	done
	sed '/^Try:/,$d; /^Their cluster file/,$d' "$dir/up"
	NETCRAQ_CLUSTER=$(sed -n 's/.*cluster file \(is \)\?\(.*\.yaml\).*/\2/p' "$dir/up" | head -1) # another chain may be the default
	export NETCRAQ_CLUSTER
	etcd=$(sed -n 's/.* --endpoints \([^ ]*\) put .*/\1/p' "$dir/up")
	data=$(sed -n 's/.* etcd off --data-dir \([^ ]*\) .*/\1/p' "$dir/up")
}

# count prints how many reads etcd has answered through the chain, or by ReadIndex.
count() { curl -s "$etcd/metrics" | awk -v name="netcraq_member_$1_reads_total" '$1 ~ "^" name { n += $NF } END { print n }'; }

# read_etcd reads a key of etcd until a read is answered through the chain (fast) or by ReadIndex (slow), which should be the first one.
read_etcd() {
	local kind=$1 fast slow
	for _ in {1..20}; do
		fast=$(count fast) slow=$(count slow)
		run curl -s "$etcd/v3/kv/range" -d "{\"key\": \"$(printf color | base64)\"}"
		printf '\n\n  through the chain: %s -> %s, by ReadIndex: %s -> %s\n' "$fast" "$(count fast)" "$slow" "$(count slow)"
		[ "$(count "$kind")" = "${!kind}" ] || return 0
	done
	echo "demo: no read was $kind" >&2
	exit 1
}

# use_etcd writes and reads with etcd's JSON API, as etcdctl does with gRPC, and takes the chain away from the reads.
use_etcd() {
	run curl -s "$etcd/v3/kv/put" -d "{\"key\": \"$(printf color | base64)\", \"value\": \"$(printf blue | base64)\"}"
	echo
	read_etcd fast
	run netcraq etcd off --data-dir "$data"
	read_etcd slow
	run netcraq etcd on --data-dir "$data"
}

title 'A chain of three nodes'
start_chain

title 'A write goes down the chain; the tail commits it and answers'
run netcraq put greeting 'hello, network' --trace

title 'A read is answered by the node it is sent to, whichever that is'
for node in n1 n2 n3; do run netcraq get greeting --node $node --trace; done

title 'Coordination: compare and set, counters'
run netcraq cas leader --expect 0 alice
expect_exit 4 netcraq cas leader --expect 0 bob
run netcraq add visits 1
run netcraq add visits 41
run netcraq delete greeting
expect_exit 3 netcraq get greeting

title 'An etcd that reads through the chain: linearizable without ReadIndex, and back at any time'
if command -v curl >/dev/null; then use_etcd; else echo "left out: it needs curl, or etcdctl --endpoints $etcd"; fi

if grep -q 'on XDP' "$dir/up"; then
	title 'Links that lose and repeat 5 % of their packets: every write takes effect exactly once'
	run netcraq lab fault loss 5 --name $lab
	run netcraq lab fault duplicate 5 --name $lab
	printf '\n%s$ for i in {1..50}; do netcraq add visits 1 --timeout 5s; done%s\n' "$dim" "$plain"
	for _ in {1..50}; do netcraq add visits 1 --timeout 5s >/dev/null; done
	run netcraq lab fault clear --name $lab
	run netcraq get visits
	[ "$(netcraq get visits --raw | od -An -tu8 --endian=big | tr -d ' ')" = 92 ] || { echo 'demo: a write was lost or counted twice' >&2; exit 1; }

	title "The agent is killed: the node goes on answering, in the kernel"
	run netcraq lab fault agent-kill n2 --name $lab
	run netcraq get visits --node n2 --trace
fi

title 'Done: cleaning up'
