#!/bin/bash
# Installs the missing tools of the Makefile: Debian packages, which needs root, and the Go version of go.mod, which does
# not. Prints nothing if none is missing. `setup.sh model` installs the checker of the protocol's model instead,
# `setup.sh kernels` the tools that boot other kernels,
# `setup.sh p4` for the software switch, `setup.sh test` for programs that tests run, `setup.sh kubernetes` for a cluster
# of kubelets, `setup.sh clients` for the tests of etcd's client libraries, `setup.sh package` for that of the package.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.tools/go/bin:$PATH"
want=$(awk '$1 == "go" { print $2 }' go.mod)

say() { echo "setup: $*" >&2; }

# install asks apt for packages.
install() {
	if ! command -v apt-get >/dev/null; then
		say "needed, and this is no Debian: $* (or the packages of this system that correspond to them)"
		exit 1
	fi
	if [ "$(id -u)" != 0 ]; then
		say "needed, as root: apt-get install --no-install-recommends $*"
		exit 1
	fi
	say "installing $*"
	local log
	log=$(mktemp)
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		say "apt-get could not install $*"
		exit 1
	fi
	rm -f "$log"
}

# packages names the Debian packages that are missing: the compiler of the BPF programs and the headers they include.
packages() {
	command -v "${CLANG:-clang-19}" >/dev/null || echo clang-19
	[ -e /usr/include/bpf/bpf_helpers.h ] || echo libbpf-dev
	[ -e "/usr/include/$(uname -m)-linux-gnu/asm/types.h" ] || [ -e /usr/include/asm/types.h ] || echo linux-libc-dev
}

# p4_packages names those that the software switch of the P4 plane is missing.
p4_packages() {
	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdlib.h ] || echo libc6-dev
	command -v pkg-config >/dev/null || echo pkg-config
	[ -e /usr/include/dpdk/rte_swx_pipeline.h ] || echo libdpdk-dev
}

# model_packages names those that `make model` is missing: Spin writes a checker in C.
model_packages() {
	command -v spin >/dev/null || echo spin
	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdlib.h ] || echo libc6-dev
}

# kernel_packages names those that `make test-kernels` is missing. It fetches the kernels itself.
kernel_packages() {
	command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
	command -v qemu-system-aarch64 >/dev/null || echo qemu-system-arm
	command -v xz >/dev/null || echo xz-utils
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
}

# cni_packages names those that tests of the CNI plugin are missing.
cni_packages() {
	[ -x /usr/lib/cni/bridge ] || echo containernetworking-plugins
}

# test_packages names those that some tests are missing. The C compiler and Python are those of the clients.
test_packages() {
	cni_packages
	command -v ip >/dev/null || echo iproute2
	command -v python3 >/dev/null || echo python3
	python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdlib.h ] || echo libc6-dev
	[ -e /usr/include/openssl/ssl.h ] || echo libssl-dev
	command -v cpio >/dev/null || echo cpio
}

# kubernetes_packages names those that `netcraq lab kubernetes` is missing.
kubernetes_packages() {
	command -v containerd >/dev/null || echo containerd
	command -v runc >/dev/null || echo runc
	command -v openssl >/dev/null || echo openssl
	cni_packages
}

# clients_packages names those that `make test-clients` is missing: languages and their package managers. Debian's newer
# cargo is called cargo-web.
clients_packages() {
	command -v ip >/dev/null || echo iproute2
	{ [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import ensurepip, pip'; } 2>/dev/null || echo python3-venv python3-pip
	command -v npm >/dev/null || echo npm
	command -v cargo >/dev/null || echo cargo-web rustc-web
	command -v cc >/dev/null || echo gcc libc6-dev
	command -v protoc >/dev/null || echo protobuf-compiler
	[ -e /usr/include/google/protobuf/descriptor.proto ] || echo libprotobuf-dev
	command -v javac >/dev/null || echo default-jdk-headless
	command -v mvn >/dev/null || echo maven
}

# package_packages names those that `make test-package` is missing: it boots machines with a fresh Debian.
package_packages() {
	command -v ip >/dev/null || echo iproute2
	command -v mmdebstrap >/dev/null || echo mmdebstrap
	command -v systemd-nspawn >/dev/null || echo systemd-container
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
}

# race_packages names those that `make race` is missing: the race detector needs cgo.
race_packages() {
	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdlib.h ] || echo libc6-dev
}

# format_packages names those that `make format-check` is missing.
format_packages() {
	command -v clang-format-19 >/dev/null || echo clang-format-19
}

# current reports whether the go on PATH is new enough. From version 1.21 on, go fetches a newer version of itself if it
# may, so the version that it would run here counts.
current() {
	local have
	have=$(go env GOVERSION 2>/dev/null | awk '{ print substr($1, 3) }') || return 1
	[ -n "$have" ] && [ "$(printf '%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ]
}

# fetch_go puts Go into .tools/go. It comes as the module that go itself would use, through the module proxy that this
# machine is set up for; the zip of a module has no executable files, so those are marked here. It is called away from
# go.mod, which an old go cannot read.
fetch_go() {
	local arch dir work=$PWD/.tools/download
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	*) say "install Go $want for $(uname -m) yourself and put it on PATH" && exit 1 ;;
	esac
	command -v go >/dev/null || install golang-go ca-certificates
	say "fetching Go $want"
	rm -rf .tools/go && clear_download
	mkdir -p "$work"
	if ! dir=$(cd / && GOFLAGS='' GOTOOLCHAIN=local GO111MODULE=on GOMODCACHE="$work" \
		go mod download -json "golang.org/toolchain@v0.0.1-go$want.linux-$arch" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p') || [ -z "$dir" ]; then
		clear_download
		say "could not fetch Go $want: is the module proxy ($(go env GOPROXY)) within reach?"
		exit 1
	fi
	chmod -R u+w "$work"
	chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
	mv "$dir" .tools/go
	clear_download
}

# clear_download removes a module cache, whose directories are read-only.
clear_download() {
	[ ! -e .tools/download ] || { chmod -R u+w .tools/download && rm -rf .tools/download; }
}

case ${1-} in
'') mapfile -t missing < <(packages) ;;
model) mapfile -t missing < <(model_packages) ;;
kernels) mapfile -t missing < <(kernel_packages) ;;
p4) mapfile -t missing < <(p4_packages) ;;
test) mapfile -t missing < <(test_packages) ;;
kubernetes) mapfile -t missing < <(kubernetes_packages) ;;
clients) mapfile -t missing < <(clients_packages) ;;
package) mapfile -t missing < <(package_packages) ;;
race) mapfile -t missing < <(race_packages) ;;
format) mapfile -t missing < <(format_packages) ;;
*) say "usage: $0 [model|kernels|p4|test|kubernetes|clients|package|race|format]" && exit 2 ;;
esac
[ ${#missing[@]} = 0 ] || install "${missing[@]}"
[ -z "${1-}" ] || exit 0
current || fetch_go
current || { say "Go $want is needed and $(go version) was found" && exit 1; }
