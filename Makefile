# Everything a user or CI runs. `make demo` and `make test` install what they need themselves (Debian, as root).
CLANG ?= clang-19
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Wno-address-of-packed-member -Ibpf -I/usr/include/$(shell uname -m)-linux-gnu
BPF_HEADERS := $(wildcard bpf/*.h)
XDP_OBJECTS := internal/dataplane/xdp/netcraq.o internal/dataplane/xdp/scan.o

LAB_OBJECTS := internal/lab/fault.o
BENCH_OBJECTS := internal/bench/loadgen.o

.PHONY: build
build: bpf
	go build -o bin/netcraq ./cmd/netcraq

.PHONY: bpf
bpf: $(XDP_OBJECTS) $(LAB_OBJECTS) $(BENCH_OBJECTS)

internal/dataplane/xdp/%.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/bench/%.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/lab/%.o: bpf/%.bpf.c
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

.PHONY: generate
generate:
	go run ./internal/wiregen
	gofmt -w wire/wire_gen.go

# The generated gRPC code is committed; protoc is Debian's, the plugins are pinned by go.mod and here.
PROTO_TOOLS := $(CURDIR)/out/tools
.PHONY: proto
proto:
	GOBIN=$(PROTO_TOOLS) go install google.golang.org/protobuf/cmd/protoc-gen-go
	GOBIN=$(PROTO_TOOLS) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
	PATH=$(PROTO_TOOLS):$$PATH protoc --proto_path=api --go_out=. --go_opt=module=github.com/netcraq/netcraq \
		--go-grpc_out=. --go-grpc_opt=module=github.com/netcraq/netcraq api/agent.proto
