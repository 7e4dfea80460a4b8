# Everything a user or CI runs. `make demo` and `make test` install what they need themselves (Debian, as root).
CLANG ?= clang-19
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Ibpf -I/usr/include/$(shell uname -m)-linux-gnu
BPF_HEADERS := $(wildcard bpf/*.h)
XDP_OBJECTS := internal/dataplane/xdp/netcraq.o

.PHONY: build
build: bpf
	go build -o bin/netcraq ./cmd/netcraq

.PHONY: bpf
bpf: $(XDP_OBJECTS)

internal/dataplane/xdp/%.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(CLANG) $(BPF_CFLAGS) -c $< -o $@

.PHONY: generate
generate:
	go run ./internal/wiregen
	gofmt -w wire/wire_gen.go
