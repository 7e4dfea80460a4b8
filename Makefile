# Everything a user or CI runs. `make demo`, `make test` and `make build` install what they need themselves (Debian, as
# root): see scripts/setup.sh.
SHELL := /bin/bash
# The Go that scripts/setup.sh fetched goes before any other.
export PATH := $(CURDIR)/.tools/go/bin:$(PATH)
# Static binaries, which run on any host, and no C compiler needed.
export CGO_ENABLED ?= 0
# No symbol table and no DWARF: stack traces and profiles need neither. LDFLAGS= keeps them for a debugger.
LDFLAGS ?= -s -w

export CLANG ?= clang-19
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Wno-address-of-packed-member -Ibpf/include -I/usr/include/$(shell uname -m)-linux-gnu
BPF_HEADERS := $(wildcard bpf/*/*.h)
XDP_OBJECTS := internal/node/dataplane/xdp/netcraq.o internal/node/dataplane/xdp/scan.o
LAB_OBJECTS := internal/verify/lab/fault.o
BENCH_OBJECTS := internal/eval/bench/loadgen.o internal/eval/bench/line.o internal/eval/bench/memcached.o
BASELINE_OBJECTS := internal/eval/baseline/xdp/netchain.o internal/eval/baseline/xdp/netcraqpaper.o

.PHONY: build
build: bpf
	go build -buildvcs=false -trimpath -ldflags="$(LDFLAGS)" -o bin/ ./cmd/...
	@if pkg-config --exists libdpdk 2>/dev/null; then $(MAKE) --no-print-directory p4-engine; fi

# The software switch that runs the P4 programs. Debian's DPDK is needed, which nothing else is.
ENGINE_SOURCES := $(wildcard p4/engine/*.c)
.PHONY: p4-engine
p4-engine: bin/netcraq-swx
bin/netcraq-swx: $(ENGINE_SOURCES) $(wildcard p4/engine/*.h)
	@scripts/setup.sh p4
	@mkdir -p bin
	gcc -O2 -g -Wall -Wextra -Werror -DALLOW_EXPERIMENTAL_API $$(pkg-config --cflags libdpdk) -o $@ $(ENGINE_SOURCES) $$(pkg-config --libs libdpdk)

# Compiles the P4 programs again, and fails if that makes something else than what is committed: docs/p4.md says how to get p4c.
.PHONY: p4
p4:
	go run ./internal/tools/p4c

.PHONY: p4-write
p4-write:
	go run ./internal/tools/p4c -write

# A chain on this machine, real reads and writes through it, and who answered them.
.PHONY: demo
demo: build
	scripts/demo.sh

# Everything CI checks. Tests that need root are skipped without it, but not if CI=true. There, systems that we are compared with and that cost
# little to install are installed; without one its tests are skipped. Other kernels are tried there only: see test-kernels.
.PHONY: test
test: build check
	@[ "$(CI)" != true ] || $(MAKE) --no-print-directory p4-engine
	scripts/demo.sh >out/demo.txt 2>&1 || { cat out/demo.txt; exit 1; }
	$(MAKE) --no-print-directory model QUICK=1
	-@[ "$(CI)" != true ] || scripts/peers.sh redis memcached etcd
	go test -count=1 -timeout 20m ./...
	[ "$(CI)" != true ] || $(MAKE) --no-print-directory test-kernels

# What can be checked without running the product: generated files are current, and vet finds nothing.
.PHONY: check
check: bpf
	@mkdir -p out
	go run ./internal/tools/wiregen -check
	go run ./internal/tools/p4c -check
	if command -v protoc >/dev/null; then $(MAKE) --no-print-directory proto-check; fi
	go vet ./...

# All that a small chain can do, tried out with Spin: spec/model. One core, three to four minutes; QUICK=1, as in CI, leaves out the
# largest worlds: about one and a half.
.PHONY: model
model:
	@scripts/setup.sh model
	@scripts/model.sh $(if $(QUICK),quick)

# The XDP plane on the kernels that people have, in QEMU: ONLY=6.1-amd64 for one of them. Fetches and installs what it needs.
.PHONY: test-kernels
test-kernels: bpf
	@scripts/setup.sh kernels
	go run ./internal/tools/kernels

# Every figure of the papers, measured here, and the report: out/figures/report.html. Installs peers that are missing. QUICK=1: few
# places and short rounds. Goes on with a run that was interrupted.
.PHONY: figures
figures: build
	-@scripts/peers.sh
	bin/netcraq bench figures $(if $(QUICK),--quick)

.PHONY: setup
setup:
	@scripts/setup.sh

.PHONY: bpf
bpf: $(XDP_OBJECTS) $(LAB_OBJECTS) $(BENCH_OBJECTS) $(BASELINE_OBJECTS)

internal/node/dataplane/xdp/%.o: bpf/node/%.bpf.c $(BPF_HEADERS) | setup
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/eval/bench/%.o: bpf/tools/%.bpf.c $(BPF_HEADERS) | setup
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/eval/baseline/xdp/%.o: bpf/baseline/%.bpf.c $(BPF_HEADERS) | setup
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/verify/lab/%.o: bpf/tools/%.bpf.c | setup
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

.PHONY: generate
generate: setup
	go run ./internal/tools/wiregen
	gofmt -w wire/wire_gen.go

# The generated gRPC code is committed; protoc is Debian's, the plugins are pinned by go.mod and here.
TOOLS := $(CURDIR)/out/tools
PROTO = PATH=$(TOOLS):$$PATH protoc --proto_path=api --go_opt=module=github.com/netcraq/netcraq \
	--go-grpc_opt=module=github.com/netcraq/netcraq api/agent.proto api/controller.proto
$(TOOLS)/protoc-gen-go: go.mod | setup
	GOBIN=$(TOOLS) go install google.golang.org/protobuf/cmd/protoc-gen-go
$(TOOLS)/protoc-gen-go-grpc: | setup
	GOBIN=$(TOOLS) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

.PHONY: proto
proto: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
	$(PROTO) --go_out=. --go-grpc_out=.

.PHONY: proto-check
proto-check: $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc
	@rm -rf out/_proto && mkdir -p out/_proto
	$(PROTO) --go_out=out/_proto --go-grpc_out=out/_proto
	cd out/_proto && for f in $$(find api -type f); do cmp $$f ../../$$f || exit 1; done || { echo 'api/ is not current: run `make proto` and commit the result'; exit 1; }
