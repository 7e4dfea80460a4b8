#!/bin/bash
# Installs the missing systems of `netcraq bench peers`: Redis, memcached and ZooKeeper from Debian, which needs root, and
# etcd in the version of go.mod, built into .tools/. None of them is started, now or when the machine starts. Prints
# nothing if none is missing. If one cannot be installed, the script names it, installs the others, and exits with
# status 1. Arguments: the names of the systems to install (default: all of these). With the argument postgresql it
# installs PostgreSQL, which `make test-clients` uses, with prometheus that of `make test-panels`.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.tools/go/bin:$PATH"

say() { echo "peers: $*" >&2; }

missing=0
fail() {
	say "$*"
	missing=1
}

# policy keeps packages from starting their services, as long as this script installs them.
policy=/usr/sbin/policy-rc.d
own_policy=
forbid_services() {
	[ ! -e $policy ] || return 0
	own_policy=yes
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}
allow_services() { [ -z "$own_policy" ] || rm -f $policy; }
trap allow_services EXIT
trap 'exit 130' INT TERM

updated=
# debian installs packages; messages name the peer by the first of them.
debian() {
	local log
	if ! command -v apt-get >/dev/null; then
		fail "$1 is missing, and this is no Debian: install it, or what it is called here"
		return
	fi
	if [ "$(id -u)" != 0 ]; then
		fail "$1 is missing; as root: apt-get install --no-install-recommends $*"
		return
	fi
	say "installing $*"
	log=$(mktemp)
	forbid_services
	[ -n "$updated" ] || apt-get update >"$log" 2>&1 || true # an old list may do
	updated=yes
	if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1; then
		tail -n 20 "$log" >&2
		fail "apt-get could not install $1"
	fi
	rm -f "$log"
}

# off keeps a service, if the package has just brought one, from starting with the machine.
off() { ! command -v update-rc.d >/dev/null || update-rc.d "$1" disable >/dev/null 2>&1 || true; }

redis() {
	command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null && return
	debian redis-server redis-tools
	off redis-server
}

memcached() {
	type -P memcached >/dev/null && return
	debian memcached
	off memcached
}

# The library alone is the whole server; the package "zookeeper" adds a service and a desktop's Java.
zookeeper() {
	local wanted=()
	[ -e /usr/share/java/zookeeper.jar ] || wanted+=(libzookeeper-java)
	command -v java >/dev/null || wanted+=(default-jre-headless)
	[ ${#wanted[@]} = 0 ] || debian "${wanted[@]}"
}

postgresql() {
	compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null && return
	debian postgresql
	off postgresql
}

prometheus() {
	type -P prometheus >/dev/null && return
	debian prometheus
	off prometheus
}

etcd() {
	local want=.tools/etcd version
	version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
	[ "$(cat $want.version 2>/dev/null)" = "$version" ] && [ -x $want ] && return
	say "building etcd $version"
	mkdir -p .tools
	if ! CGO_ENABLED=0 go build -o $want go.etcd.io/etcd/server/v3; then
		fail "etcd $version can't be built: is the module proxy within reach?"
		return
	fi
	echo "$version" >$want.version
}

# etcd whose leader answers reads while it has Raft's lease, for bench member: a copy with one more line in its
# configuration of Raft.
etcd_lease() {
	local want=.tools/etcd-lease source=.tools/etcd-lease.d version dir
	version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
	[ "$(cat $want.version 2>/dev/null)" = "$version" ] && [ -x $want ] && return
	dir=$(go list -m -f '{{.Dir}}' go.etcd.io/etcd/server/v3)
	say "building etcd $version with reads by Raft's leases"
	rm -rf $source && mkdir -p $source
	cp -r "$dir" $source/server && chmod -R u+w $source && cp go.mod go.sum $source
	sed -i 's/CheckQuorum: *true,/&\nReadOnlyOption: raft.ReadOnlyLeaseBased,/' $source/server/etcdserver/bootstrap.go
	go mod edit -replace=go.etcd.io/etcd/server/v3="$PWD/$source/server" $source/go.mod
	if ! grep -q ReadOnlyLeaseBased $source/server/etcdserver/bootstrap.go ||
		! CGO_ENABLED=0 go build -modfile=$source/go.mod -o $want go.etcd.io/etcd/server/v3; then
		fail "etcd $version can't be built so: is the module proxy within reach, and CheckQuorum set in bootstrap.go?"
		return
	fi
	rm -rf $source
	echo "$version" >$want.version
}

[ $# != 0 ] || set -- redis memcached zookeeper etcd
for peer; do
	case $peer in
	redis | memcached | zookeeper | postgresql | prometheus | etcd) $peer ;;
	etcd-lease) etcd_lease ;;
	*) say "usage: $0 [redis] [memcached] [zookeeper] [postgresql] [prometheus] [etcd] [etcd-lease]" && exit 2 ;;
	esac
done
exit $missing
