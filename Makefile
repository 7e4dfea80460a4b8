# Everything a user or CI runs. `make demo`, `make test` and `make build` install what they need themselves (Debian, as
# root): see scripts/setup.sh.
SHELL := /bin/bash
# The Go that scripts/setup.sh fetched goes before any other.
export PATH := $(CURDIR)/.tools/go/bin:$(PATH)
# Static binaries, which run on any host, and no C compiler needed.
export CGO_ENABLED ?= 0
# No symbol table and no DWARF: stack traces and profiles need neither. LDFLAGS= keeps them for a debugger.
LDFLAGS ?= -s -w
MODULE := github.com/netcraq/netcraq
# The product's module, and the evaluation's, which requires it. The modules below tools/ have targets of their own.
MODULES := . eval
# $(call in-modules,COMMAND) runs a command in both modules, also in the second if it fails in the first. $$module is the
# module's directory.
in-modules = failed=; for module in $(MODULES); do (cd "$$module" && $(1)) || failed=1; done; [ -z "$$failed" ]
# What `netcraq version` prints; empty outside a clone.
REVISION = $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null)
GO_BUILD = -buildvcs=false -trimpath -ldflags="$(LDFLAGS) -X $(MODULE)/internal/platform/build.revision=$(REVISION)"

export CLANG ?= clang-19
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Wno-address-of-packed-member -Ibpf/include -I/usr/include/$(shell uname -m)-linux-gnu
BPF_HEADERS := $(wildcard bpf/*/*.h eval/bpf/*/*.h)
# Development tools are pinned in tools/go.mod, a module of its own, and compiled here.
TOOLS := $(CURDIR)/out/tools
XDP_OBJECTS := internal/node/dataplane/xdp/netcraq.o.gz
LAB_OBJECTS := internal/verify/lab/fault.o
BENCH_OBJECTS := eval/bench/loadgen.o eval/bench/line.o eval/bench/memcached.o
BASELINE_OBJECTS := eval/baseline/xdp/netchain.o eval/baseline/xdp/netcraqpaper.o

.DEFAULT_GOAL := build

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: bpf ## Compile bin/netcraq, bin/netcraq-lab and bin/netcraq-bench
	@echo 'go build -o bin/ ./cmd/... ./eval/cmd/...'
	@$(call in-modules,go build $(GO_BUILD) -o $(CURDIR)/bin/ ./cmd/...)
	@if pkg-config --exists libdpdk 2>/dev/null; then $(MAKE) --no-print-directory p4-engine; fi

# Users see what make build makes, not the commands with all their flags.
.PHONY: build-quiet
build-quiet:
	@size=$$($(MAKE) --no-print-directory build | wc -c); \
		[ "$$size" -lt 500 ] || { echo "make build prints $$size bytes, want less than 500"; exit 1; }

# The software switch that runs the P4 programs. Debian's DPDK is needed, which nothing else is.
ENGINE_SOURCES := $(wildcard p4/engine/*.c)
.PHONY: p4-engine
p4-engine: bin/netcraq-swx ## Compile the software switch that runs the P4 programs (DPDK)
bin/netcraq-swx: $(ENGINE_SOURCES) $(wildcard p4/engine/*.h)
	@scripts/setup.sh p4
	@mkdir -p bin
	@echo 'gcc $@'
	@gcc -O2 -g -Wall -Wextra -Werror -DALLOW_EXPERIMENTAL_API $$(pkg-config --cflags libdpdk) -o $@ $(ENGINE_SOURCES) $$(pkg-config --libs libdpdk)

# Compiles the P4 programs again, and fails if that makes something else than what is committed: docs/p4.md says how to get p4c.
.PHONY: p4
p4: ## Compile the P4 programs again, and compare with what is committed
	go run ./internal/tools/p4c

.PHONY: p4-write
p4-write:
	go run ./internal/tools/p4c -write

# A chain on this machine, real reads and writes through it, and who answered them.
.PHONY: demo
demo: build ## Bring up a chain, use it, and clean up
	scripts/demo.sh

# Everything CI checks. Tests that need root are skipped without it, but not if CI=true. There, systems that we are compared with and that cost
# little to install are installed; without one its tests are skipped. Other kernels are tried there only: see test-kernels.
# PKG and RUN choose tests, as the arguments of go test do: make test PKG=./client RUN=TestLock. Packages of both modules
# are named from here: PKG=./eval/bench.
EVAL_PACKAGES = $(patsubst ./eval/%,./%,$(filter ./eval/%,$(PKG)))
PRODUCT_PACKAGES = $(filter-out ./eval/%,$(PKG))
PACKAGES_IN = case "$$module" in .) echo $(PRODUCT_PACKAGES) ;; *) echo $(EVAL_PACKAGES) ;; esac
GO_TEST = $(call in-modules,go test -count=1 -timeout 20m $(if $(RUN),-run '$(RUN)') ./...)
ifneq ($(PKG),)
GO_TEST = $(call in-modules,packages=$$($(PACKAGES_IN)) && { [ -z "$$packages" ] || \
	go test -count=1 -timeout 20m $(if $(RUN),-run '$(RUN)') $$packages; })
endif
.PHONY: test
ifneq ($(PKG)$(RUN),)
test: bpf ## Run everything that CI checks; PKG=./client and RUN=TestLock choose tests
	$(GO_TEST)
else ifeq ($(CI),true)
test: build check
	scripts/behind.sh out/behind.txt "kubernetes-programs chart-check images-check model QUICK=1" \
		$(MAKE) --no-print-directory test-ci
	$(MAKE) --no-print-directory test-kubernetes QUICK=1
else
test: build check test-demo
	$(MAKE) --no-print-directory model QUICK=1
	$(GO_TEST)
endif

# Runs all fuzz targets for MINUTES together. FUZZ, an extended regular expression, chooses among lines DIRECTORY:NAME.
MINUTES ?= 60
.PHONY: fuzz
fuzz: bpf ## Run every fuzz target in turn, for MINUTES (60) in all; FUZZ=wire: chooses some
	scripts/fuzz.sh $(MINUTES) '$(or $(FUZZ),.)'

.PHONY: test-demo
test-demo:
	scripts/demo.sh >out/demo.txt 2>&1 || { cat out/demo.txt; exit 1; }

# What CI runs while Kubernetes and the library of Helm are compiled and the model is checked: much of it waits.
.PHONY: test-ci
test-ci:
	@$(MAKE) --no-print-directory p4-engine
	$(MAKE) --no-print-directory test-demo
	-@scripts/peers.sh redis memcached etcd
	@scripts/setup.sh test
	$(MAKE) --no-print-directory test-unraced
	$(MAKE) --no-print-directory race QUICK=1
	$(MAKE) --no-print-directory test-kernels QUICK=1
	$(MAKE) --no-print-directory history
	@$(MAKE) --no-print-directory test-etcd QUICK=1
	@$(MAKE) --no-print-directory test-http2
	@$(MAKE) --no-print-directory test-p4runtime
	@$(MAKE) --no-print-directory test-alerts test-panels
	@$(MAKE) --no-print-directory test-clients RUN=TestLanguages QUICK=1
	@$(MAKE) --no-print-directory test-package

# CI shares its machine with other load. A failed test runs once more by itself, at most five of them. The run fails if it fails
# again; a test that passes then is printed as flaky, and is a bug.
RUN_TWICE = $(TOOLS)/gotestsum --format pkgname --rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures=5 \
	--rerun-fails-report=$(CURDIR)/out/flaky.$${module/./product}.txt
LIST_FLAKY = [ -z "$$(cat out/flaky.*.txt 2>/dev/null)" ] || { echo 'flaky: failed once, then passed alone'; cat out/flaky.*.txt; }
.PHONY: test-unraced
test-unraced: bpf $(TOOLS)/gotestsum
	@mkdir -p out && rm -f out/flaky.*.txt
	$(call in-modules,$(RUN_TWICE) --packages="$$($(UNRACED))" -- -count=1 -timeout 20m)
	@$(LIST_FLAKY)

# Each header of BPF programs compiles alone: it includes all that it uses. Functions may be unused, and a program defines drop().
.PHONY: bpf-headers
bpf-headers: ## Check that each header of BPF programs compiles alone
	@set -e; for header in $(BPF_HEADERS); do \
		echo "#include \"$$header\"" | $(CLANG) $(BPF_CFLAGS) -I. -Wno-unused-function -Wno-undefined-internal \
			-fsyntax-only -x c - || { echo "$$header does not compile alone"; exit 1; }; \
	done

# Everything that can be checked without running the product: generated files, headers and vet; in CI the linters, vet among
# them, the format and the API.
.PHONY: check
check: bpf bpf-headers ## Check that generated files are current, and run go vet
	@mkdir -p out
	go run ./internal/tools/wiregen -check
	go run ./internal/tools/p4c -check
	if command -v protoc >/dev/null; then $(MAKE) --no-print-directory proto-check; fi
ifeq ($(CI),true)
	$(MAKE) --no-print-directory build-quiet tidy-check lint format-check api-check vulnerabilities
else
	$(call in-modules,go vet ./...)
endif

# The figures of eval/history.jsonl that do not depend on the load. Fails if one is more than 5 % worse and the file does not say so.
.PHONY: history
history: ## Print this tree's line of the history, and fail if a figure is more than 5 % worse (after make build)
	bin/netcraq-bench history check

# All that a small chain can do, tried out with Spin: spec/model. One core, three to four minutes; QUICK=1, as in CI, leaves out the
# largest worlds: about one and a half.
.PHONY: model
model: ## Check the model of the protocol with Spin; QUICK=1 leaves out the largest
	@scripts/setup.sh model
	@scripts/model.sh $(if $(QUICK),quick)

# The XDP plane on the kernels that people have, in QEMU: ONLY=6.1-amd64 for one of them. Fetches and installs what it needs. QUICK=1,
# as in CI: the oldest of x86-64 and one of arm64, and a tenth of the random packets, which take most of the time there.
QUICK_KERNELS := 6.1-amd64,6.12-arm64
.PHONY: test-kernels
test-kernels: bpf ## Load and run the XDP plane on kernels of distributions, in QEMU
	@scripts/setup.sh kernels
	$(if $(QUICK),PACKETS=10000 ONLY=$(or $(ONLY),$(QUICK_KERNELS))) go run ./internal/tools/kernels

# Kubernetes is compiled here, by the version in tools/kubernetes/go.mod. Without optimization it compiles in half the time.
KUBERNETES := $(addprefix out/kubernetes/,kube-apiserver kube-controller-manager kube-scheduler kubeadm kubectl kubelet)
KUBERNETES_VERSION = $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' tools/kubernetes/go.mod)
$(KUBERNETES) &: tools/kubernetes/go.mod | setup
	@mkdir -p out/kubernetes
	go build -C tools/kubernetes -buildvcs=false -trimpath -gcflags='all=-N -l' \
		-ldflags='-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)' -o $(CURDIR)/out/kubernetes/ \
		$(KUBERNETES:out/kubernetes/%=k8s.io/kubernetes/cmd/%)
	@touch $(KUBERNETES)

# etcd's own tools, for tests that move a cluster's objects.
ETCD_TOOLS := out/kubernetes/etcdctl out/kubernetes/etcdutl
$(ETCD_TOOLS) &: tools/suites/go.mod | setup
	go build -C tools/suites -buildvcs=false -trimpath -o $(CURDIR)/out/kubernetes/ go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3
	@touch $(ETCD_TOOLS)

# With QUICK=1, as in CI, tests are skipped while the module proxy is away, and for no other reason.
KUBERNETES_AWAY = [ -n "$(QUICK)" ] && ! go -C tools/kubernetes mod download k8s.io/kubernetes && \
	echo 'skipped: k8s.io/kubernetes cannot be downloaded'
.PHONY: kubernetes-programs
kubernetes-programs: | setup
	@$(KUBERNETES_AWAY) || $(MAKE) --no-print-directory $(KUBERNETES) $(ETCD_TOOLS)

.PHONY: test-kubernetes-api
test-kubernetes-api: build $(KUBERNETES) ## Run a Kubernetes API server in front of the gateway; compiles it first
	go test -C tools/kubernetes -count=1 -run TestManifestsOnGateway ./...

# What `netcraq lab kubernetes` needs, for this machine: Kubernetes, and the images of the product and of its pods.
.PHONY: kubernetes
LAB_ARCH = $(shell go env GOARCH)
kubernetes: build $(KUBERNETES) ## Compile Kubernetes and pack the images for netcraq lab kubernetes
	@scripts/setup.sh kubernetes
	$(MAKE) --no-print-directory images IMAGE_ARCHS=$(LAB_ARCH) IMAGE_NAME=netcraq:latest
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags='-s -w' -o out/images/$(LAB_ARCH)/netcraq-pod \
		./internal/verify/kubernetes/pod
	go run -C tools/image . -programs netcraq-pod -name netcraq-pod:latest $(CURDIR)/out/images $(LAB_ARCH)

.PHONY: test-kubernetes
test-kubernetes: ## Run the manifests on four kubelets, with faults; compiles Kubernetes first (root). QUICK=1: as CI does
	@$(KUBERNETES_AWAY) || $(MAKE) --no-print-directory test-kubernetes-now

# The second image is of another version, to which the test updates the nodes.
.PHONY: test-kubernetes-now
test-kubernetes-now: kubernetes $(ETCD_TOOLS)
	@scripts/peers.sh etcd
	$(MAKE) --no-print-directory images IMAGE_ARCHS=$(LAB_ARCH) IMAGE_NAME=netcraq:next IMAGES=out/images/next REVISION=next
	go test -C tools/kubernetes -count=1 -timeout 40m -v ./...

.PHONY: test-kubernetes-storage
test-kubernetes-storage: build ## Run Kubernetes' own tests of its storage through the gateway and with members, or RUN=TestMembers; compiles them first
	go test -C tools/suites -v -count=1 -timeout 60m -run '$(or $(RUN),.)' ./kubernetes

# PACKAGE=e2e and RUN=TestCtlV3Get choose tests.
.PHONY: test-http2
test-http2: build ## Run h2spec on the ports of a gateway and of an etcd, and compare
	@scripts/peers.sh etcd
	go test -C tools/h2spec -count=1 -v -run TestGatewayBesideEtcd .

.PHONY: test-attacks
test-attacks: build ## Attack gateways and an etcd, and print their memory and what other clients see; SOAK=30m: all attacks on the same gateways
	@scripts/peers.sh etcd
	go test -C tools/h2spec -count=1 -timeout 0 -v -run $(if $(SOAK),TestSoak,TestAttacks) .

# ADVISORIES are the tests of the attacks in docs/verification.md#advisories.
ADVISORIES := TestUnreadAnswers|TestAnnouncedRequests|TestRapidReset|TestMadeYouReset|TestBrokenProtocol|TestMalformed|TestRefused|TestManyLargeHeaders|TestManySettings|TestRepeatedSettings|TestSlowHandshakes|TestRevokedCertificates|TestDescriptorsRunOut|TestConnectionsAreLimited|TestAuthIsNotBypassed|TestTokens
.PHONY: test-advisories
test-advisories: ## Run the tests of the HTTP/2 floods and of etcd's advisories
	go test -count=1 -run '^($(ADVISORIES))' ./internal/gateway/grpcserver ./internal/gateway/serve ./internal/gateway/proxy

.PHONY: test-p4runtime
test-p4runtime: build p4-engine ## Drive a software switch with p4runtime-shell, which is installed from PyPI
	@scripts/setup.sh test
	go test -C tools/suites -count=1 ./p4runtime

.PHONY: test-etcd
test-etcd: build ## Run etcd's own tests through gateways that cache, with MEMBER=1 on members that read through a chain, or with KEYSPACE=1 on keyspaces. QUICK=1: a part, without MEMBER what CI runs
	MEMBER='$(MEMBER)' KEYSPACE='$(KEYSPACE)' PACKAGE='$(PACKAGE)' RUN='$(RUN)' QUICK='$(QUICK)' go test -C tools/suites -v -count=1 -timeout 240m ./etcd

# RUN=TestClients/aetcd chooses tests, and WRITE=1 writes the table of docs/clients.md. With QUICK=1, as in CI, RUN=TestLanguages leaves
# out the languages whose programs are not installed, or whose libraries are not within reach.
.PHONY: test-clients
test-clients: build ## Run tests of etcd's client libraries with etcd, the gateway and keyspaces in memory, and Patroni (root)
	@scripts/setup.sh $(if $(QUICK),test,clients)
	@scripts/peers.sh etcd $(if $(QUICK),,postgresql)
	QUICK='$(QUICK)' WRITE='$(WRITE)' go test -C tools/suites -v -count=1 -parallel 4 -timeout 60m -run '$(RUN)' ./clients

# Every figure of the papers, measured here, and the report: out/figures/report.html. Installs peers that are missing. QUICK=1: few
# places and short rounds. Goes on with a run that was interrupted.
.PHONY: figures
figures: build ## Measure every figure of the papers; QUICK=1 for a short run
	-@scripts/peers.sh
	bin/netcraq bench figures $(if $(QUICK),--quick)

.PHONY: setup
setup:
	@scripts/setup.sh

.PHONY: bpf
bpf: $(XDP_OBJECTS) $(LAB_OBJECTS) $(BENCH_OBJECTS) $(BASELINE_OBJECTS)

.PRECIOUS: internal/node/dataplane/xdp/%.o
internal/node/dataplane/xdp/%.o.gz: internal/node/dataplane/xdp/%.o
	@gzip -9nc $< >$@

internal/node/dataplane/xdp/%.o: bpf/node/%.bpf.c $(BPF_HEADERS) | setup
	@echo 'clang $@'
	@$(CLANG) $(BPF_CFLAGS) -c $< -o $@

eval/bench/%.o: eval/bpf/load/%.bpf.c $(BPF_HEADERS) | setup
	@echo 'clang $@'
	@$(CLANG) $(BPF_CFLAGS) -c $< -o $@

eval/baseline/xdp/%.o: eval/bpf/baseline/%.bpf.c $(BPF_HEADERS) | setup
	@echo 'clang $@'
	@$(CLANG) $(BPF_CFLAGS) -c $< -o $@

internal/verify/lab/%.o: bpf/tools/%.bpf.c | setup
	@echo 'clang $@'
	@$(CLANG) $(BPF_CFLAGS) -c $< -o $@

.PHONY: generate
generate: setup ## Write what spec/wire.yaml defines
	go run ./internal/tools/wiregen
	gofmt -w wire/wire_gen.go

GO_TOOLS := $(addprefix $(TOOLS)/,golangci-lint apidiff gotestsum govulncheck)
$(GO_TOOLS) &: tools/go.mod | setup
	go build -C tools -o $(TOOLS)/ tool
	@touch $(GO_TOOLS)

.PHONY: tidy-check
tidy-check: | setup ## Check that each go.mod names what its module needs, and no more
	@set -e; for module in $$(git ls-files go.mod '*/go.mod'); do go mod -C "$$(dirname "$$module")" tidy -diff; done

.PHONY: vulnerabilities
vulnerabilities: $(TOOLS)/govulncheck ## Look for known vulnerabilities in what the programs call
	@$(call in-modules,$(CURDIR)/scripts/vulnerabilities.sh $(TOOLS)/govulncheck)

# The chart's manifests. Helm's library is in a module of its own, tools/chart.
.PHONY: chart
chart: ## Render deploy/manifests from the Helm chart
	go run -C tools/chart . -root ../..

.PHONY: chart-check
chart-check: ## Lint the Helm chart, check its objects, and compare the manifests
	go test -C tools/chart -count=1 ./...

# Container images, packed without a container engine: out/images/netcraq-linux-ARCH.tar. The same sources make the same
# bytes. IMAGE_ARCHS=amd64 builds for one architecture. The BPF programs are the same on all of them.
IMAGE_ARCHS ?= amd64 arm64
IMAGE_NAME ?= netcraq:latest
IMAGES ?= out/images
.PHONY: images
images: bpf ## Pack container images for docker load and ctr images import
	@set -e; for arch in $(IMAGE_ARCHS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build $(GO_BUILD) -o $(IMAGES)/$$arch/ ./cmd/netcraq ./cmd/netcraq-cni; done
	go run -C tools/image . -name $(IMAGE_NAME) -revision '$(REVISION)' \
		-version '$(shell sed -n 's/^appVersion: "\(.*\)"/\1/p' deploy/chart/Chart.yaml)' $(CURDIR)/$(IMAGES) $(IMAGE_ARCHS)

# Debian packages, bills of materials and checksums: out/dist. The same commit makes the same bytes.
DIST := $(CURDIR)/out/dist
DIST_ARCHS ?= amd64 arm64
# A Debian version begins with a digit, and ~ sorts before the release.
VERSION = $(patsubst unreleased,0.1.0~unreleased,$(shell sed -n 's/^appVersion: "\(.*\)"/\1/p' deploy/chart/Chart.yaml))
COMMIT_TIME = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
.PHONY: dist
dist: bpf ## Make Debian packages, bills of materials and SHA256SUMS in out/dist
	@set -e; for arch in $(DIST_ARCHS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build $(GO_BUILD) -o $(DIST)/$$arch/ ./cmd/netcraq ./cmd/netcraq-cni; done
	go run -C tools/package . -root $(CURDIR) -version $(VERSION) -time $(COMMIT_TIME) $(DIST) $(DIST_ARCHS)

.PHONY: dist-check
dist-check: ## Make everything of out/dist twice, and compare
	$(MAKE) --no-print-directory dist DIST=$(CURDIR)/out/dist.1
	$(MAKE) --no-print-directory dist DIST=$(CURDIR)/out/dist.2
	cmp out/dist.1/SHA256SUMS out/dist.2/SHA256SUMS

# The second package is a later version of the same programs. The machines begin with Debian's essential packages, apt, systemd
# and what the test calls.
.PHONY: test-package
test-package: ## Install the package on three machines of namespaces with systemd, cut power, upgrade and remove (root)
	@scripts/setup.sh package
	$(MAKE) --no-print-directory dist DIST_ARCHS=$(shell go env GOARCH)
	$(MAKE) --no-print-directory dist DIST_ARCHS=$(shell go env GOARCH) VERSION=$(VERSION).1 DIST=$(CURDIR)/out/dist.next
	mmdebstrap --quiet --variant=apt --include=systemd-sysv,iproute2,curl bookworm out/debian.tar
	go test -C tools/package -c -o $(CURDIR)/out/test-package .
	cd tools/package && DEBIAN=$(CURDIR)/out/debian.tar PACKAGE=$(DIST)/netcraq_$(VERSION)_$(shell go env GOARCH).deb \
		NEXT_PACKAGE=$(CURDIR)/out/dist.next/netcraq_$(VERSION).1_$(shell go env GOARCH).deb \
		unshare --mount --net --pid --fork --mount-proc $(CURDIR)/out/test-package -test.v -test.run TestInstalled -test.timeout 10m

# FROM is the version before. Without a tag it is a commit with the formats that are frozen. The newer program comes from bin/.
UPGRADE := $(CURDIR)/out/upgrade
FROM ?= $(or $(shell git describe --tags --abbrev=0 2>/dev/null),7ba45d073002)
.PHONY: test-upgrade
test-upgrade: build ## Replace each process of FROM by that of this commit and back, under checked loads (root)
	@[ ! -d $(UPGRADE)/from ] || git worktree remove --force $(UPGRADE)/from
	git worktree add --detach $(UPGRADE)/from $(FROM)
	$(MAKE) --no-print-directory -C $(UPGRADE)/from bpf
	cd $(UPGRADE)/from && go build -buildvcs=false -trimpath -o $(UPGRADE)/old/ \
		-ldflags="$(LDFLAGS) -X $(MODULE)/internal/platform/build.revision=$(FROM)" ./cmd/netcraq
	git worktree remove --force $(UPGRADE)/from
	set -e; for kind in "" --gateway --keyspace; do \
		bin/netcraq lab chaos $$kind --upgrade-from $(UPGRADE)/old/netcraq --minutes 15 --nodes 4 --clients 4 --shards 64; done

.PHONY: package-check
package-check: ## Check the program that makes packages, the units and the configuration files
	go test -C tools/package -count=1 ./...

.PHONY: images-check
images-check: ## Check the program that packs container images
	go test -C tools/image -count=1 ./...

# WRITE_METRICS has the tests that compare docs/metrics.md write it: one package at a time.
.PHONY: metrics
metrics: bpf ## Write the lists of docs/metrics.md
	WRITE_METRICS=1 go test -p 1 -count=1 -run '^Test(Disk)?MetricsPage$$' ./internal/node/agent ./internal/cluster/controller \
		./internal/gateway/proxy ./internal/gateway/memory ./internal/member/program

# The clients of the native API in each language: one table of what passes.
.PHONY: test-languages
test-languages: bpf ## Run the scenarios of clients in Go and other languages, and print what passes
	@scripts/setup.sh test
	@set -o pipefail; CI=true NETCRAQ_TABLE=1 go test -count=1 -v -timeout 10m ./clients/... | grep -vE '^ *(=== |--- PASS: .*/)'

.PHONY: test-dissector
test-dissector: ## Have tshark dissect messages of all kinds, and compare; installs it (root)
	command -v tshark >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends tshark
	go test -count=1 -v -run TestDissector ./internal/tools/wiregen

# The browser takes longer than CI has for one page. PICTURES=DIR: pictures of it are written there.
.PHONY: test-dashboard
test-dashboard: ## Drive the dashboard's page in a headless Chromium, which must be installed
	@[ -z "$(PICTURES)" ] || mkdir -p "$(PICTURES)"
	NETCRAQ_PICTURES=$(PICTURES) go test -tags browser -count=1 -run '^TestDashboardPage$$' ./internal/cli/operate

# Prometheus' own checker. Debian's package has one; PROMTOOL=PATH names another.
PROMTOOL ?= promtool
.PHONY: test-alerts
test-alerts: ## Test the alerts of deploy/prometheus and the dashboard's queries with promtool; installs it (root)
	@[ $(PROMTOOL) != promtool ] || scripts/peers.sh prometheus
	$(PROMTOOL) check rules deploy/prometheus/netcraq.rules.yaml
	$(PROMTOOL) test rules deploy/prometheus/netcraq_test.yaml
	NETCRAQ_PROMTOOL=$(PROMTOOL) go test -count=1 -run '^TestDashboardNamesMetrics$$' ./internal/verify/metricspage

# Without Grafana this says that panels have values, not how they look.
.PHONY: test-panels
test-panels: bpf ## Have a Prometheus scrape a cluster, and ask it for each query of the dashboard; installs it (root)
	@scripts/peers.sh prometheus
	go test -tags prometheus -count=1 -v -timeout 10m -run '^TestPanels$$' ./internal/cli/operate

.PHONY: lint
lint: bpf $(TOOLS)/golangci-lint ## Run the linters of .golangci.yml, except for lengths of lines
	$(call in-modules,$(TOOLS)/golangci-lint run --disable lll ./...)

# The lines that changed since BASE may have 120 columns.
.PHONY: lint-new
BASE ?= main
lint-new: bpf $(TOOLS)/golangci-lint ## Run all linters on the lines that changed since BASE (main)
	$(call in-modules,$(TOOLS)/golangci-lint run --new-from-rev=$(BASE) ./...)

# Every package with tests that run without BPF, under the race detector, which needs cgo. QUICK=1, as in CI, leaves out those
# that compute in one goroutine for minutes. CI runs each package once: under the race detector, or, if race leaves it or tests of it
# out, without. Four packages run at a time: their tests mostly wait.
RACE_BPF := dataplane/xdp|internal/cni|baseline/xdp|cli/lab|cli/bench|cli/papers|eval/bench|verify/lab|tools/guides|tools/kernels
RACE_SLOW := tools/archtest|cluster/reconfig|verify/sim|verify/gatewaysim|verify/membersim|verify/keyspacesim|verify/conformance|baseline/sim|eval/figure|eval/scale|eval/plot
# Tests of the bytecode, which the race detector cannot see, and one more; RACE_PARTLY has their packages.
# TestDamagedDatabase: bbolt follows damaged offsets, which checkptr makes fatal; without it the product catches the fault.
RACE_SKIP := ^(TestRandomPackets|TestTaggedRandomPackets|TestVectors|TestTaggedVectors|TestMachineClock|TestMachineOrder|TestMachineSmall|TestForgeries.*|TestTransit|TestClientsAreLimited|TestDamagedDatabase)$$
RACE_PARTLY := verify/harness|gateway/memory/keyspace|baseline/netchain|baseline/netcraqpaper
TESTED = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...
RACED = $(TESTED) | grep -vE '/($(RACE_BPF)$(if $(QUICK),|$(RACE_SLOW)))(/|$$)'
# Packages start in this order, two at a time. The longest, cli/bench, starts first, so that it does not run alone in the end.
UNRACED = $(TESTED) | grep -E '/($(RACE_BPF)|$(RACE_SLOW)|$(RACE_PARTLY))(/|$$)' | \
	awk '/cli\/bench$$/ { print; next } { others = others $$0 "\n" } END { printf "%s", others }'
.PHONY: race
race: bpf $(TOOLS)/gotestsum ## Run the tests that need no BPF under the race detector; QUICK=1 leaves out the slowest
	@scripts/setup.sh race
	@mkdir -p out && rm -f out/flaky.*.txt
	$(call in-modules,CGO_ENABLED=1 $(RUN_TWICE) --rerun-fails-abort-on-data-race --packages="$$($(RACED))" -- \
		-race -count=1 -p 4 -timeout 30m -skip '$(RACE_SKIP)')
	@$(LIST_FLAKY)

.PHONY: format-check
C_SOURCES = $(shell git ls-files 'bpf/*.[ch]' 'eval/bpf/*.[ch]' 'clients/*.[ch]' | grep -v netcraq_wire.h | grep -v '\.gen\.h$$')
format-check: ## Check the format of Go and C sources
	@scripts/setup.sh format
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run gofmt -w on: $$unformatted"; exit 1; }
	clang-format-19 --dry-run --Werror $(C_SOURCES)

.PHONY: format
format: ## Format Go and C sources
	@scripts/setup.sh format
	gofmt -w $$(git ls-files '*.go')
	clang-format-19 -i $(C_SOURCES)

# The API of the packages that others import, against the one that was recorded last. `make api-record` accepts changes.
PUBLIC := client wire
.PHONY: api-check
api-check: $(TOOLS)/apidiff ## Check that client and wire are compatible with what tools/api records
	@for p in $(PUBLIC); do found=$$($(TOOLS)/apidiff -incompatible tools/api/$$p.export ./$$p) || exit 1; \
		[ -z "$$found" ] || { echo "package $$p: $$found"; echo 'incompatible: change it back, or write it into CHANGELOG.md and run `make api-record`'; exit 1; }; done

.PHONY: api-record
api-record: $(TOOLS)/apidiff ## Record the API of client and wire
	for p in $(PUBLIC); do $(TOOLS)/apidiff -w tools/api/$$p.export ./$$p || exit 1; done

.PHONY: hooks
hooks: ## Let git run scripts/pre-commit.sh before every commit
	ln -sf ../../scripts/pre-commit.sh "$$(git rev-parse --git-path hooks)/pre-commit"

# The generated gRPC code is committed; protoc is Debian's, the plugins are pinned by go.mod and here.
PROTO = PATH=$(TOOLS):$$PATH protoc --proto_path=api --go_opt=module=github.com/netcraq/netcraq \
	--go-grpc_opt=module=github.com/netcraq/netcraq api/agent.proto api/controller.proto api/keyspace.proto api/switch.proto
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
