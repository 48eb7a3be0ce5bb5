# Palyra: build, run, test. 'make help' lists the targets.
#
# Two commands matter to a newcomer: 'make run' and 'make test'. Both check what
# they need first and say exactly what is missing. Nothing is fetched from the
# network when the module cache is warm; tools are Go programs pinned in module
# files of their own (tools/) and built by the go command, which caches them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
TOOL     = $(GO) tool -modfile=tools/go.mod

# Everything is pure Go. The version is stamped here, not by the go command, so
# that a checkout owned by somebody else builds too.
export CGO_ENABLED = 0
export GOFLAGS    := $(strip $(GOFLAGS) -buildvcs=false)

# palyra-cell is built first: its digest is stamped into palyrad, which runs no
# other one.
# palyra-wasm alone has C in it; without a C compiler all else is built, and skills
# are off.
PROGRAMS   = palyra palyra-full palyra-tui palyra-cell palyra-verify palyra-sign
BUILDFLAGS = -trimpath -ldflags "-X main.version=$(VERSION)"

# Knobs: make fuzz FUZZTIME=10m, make bench BENCH=Gate, make soak SOAK=1h.
FUZZTIME  ?= 30s
FUZZ      ?= .
BENCH     ?= holds
BENCHTIME ?= 2s
ROUNDS    ?= 3
COPY      ?= bin/bench.json
BEFORE    ?= bin/bench.before.json
AFTER     ?= bin/bench.json
SOAK      ?= 1h
ROOMS     ?= 10000
CHECKS    ?= 5000
SCRIPTS   ?= 10000
DRAWS     ?= 1000
RACE      ?= ./...

.PHONY: help
help: ## list the targets
	@echo "Palyra, the gate between agents and a machine. Start with 'make run', then read README.md."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## check what building and testing need, and install or name what is missing
	@scripts/setup.sh

.PHONY: build
build: setup ## build palyra, palyra-full, palyra-tui, palyrad, palyra-cell, palyra-wasm, palyra-verify and palyra-sign into bin/
	@mkdir -p bin
	$(GO) build $(BUILDFLAGS) -o bin/ $(PROGRAMS:%=./cmd/%)
	@GO="$(GO)" scripts/wasm.sh bin
	@cell=$$(sha256sum bin/palyra-cell | cut -d' ' -f1); \
	wasm=$$([ ! -e bin/palyra-wasm ] || sha256sum bin/palyra-wasm | cut -d' ' -f1); set -x; \
	$(GO) build -trimpath -ldflags "-X main.version=$(VERSION) -X main.cell=$$cell -X main.wasm=$$wasm" -o bin/ ./cmd/palyrad

.PHONY: agents
agents: ## drive the real agents, which npm installs below the cache directory, by hook, over MCP and inside; about 20 minutes
	@scripts/agents.sh

.PHONY: devcontainer
devcontainer: build ## pack the feature for development containers, with the programs, as bin/devcontainer-feature-palyra.tgz
	@scripts/devcontainer.sh bin bin

.PHONY: run
run: build ## build, start the daemon on its defaults, show a short demo and say what to do next
	@scripts/run.sh

.PHONY: test
test: ## everything: linters, layers, all tests, a sample of fuzzing and faults
	@scripts/setup.sh test
	@$(MAKE) lint
	@$(MAKE) test-fuzz
	@$(MAKE) test-go

# lint has vetted everything. Many tests wait more than they work, so four packages run at
# once, and four tests of a package where they say that they can. Those that take minutes
# begin first: the others fill up what they leave.
LONG = ./internal/e2e ./internal/sandbox/sandboxtest ./internal/sandbox/bubble ./internal/rpc ./internal/cli \
	./internal/wasm/engine ./internal/sandbox/bwrap

.PHONY: test-go
test-go:
	@scripts/test.sh $(LONG) ./...

# Seeds run with the tests; this is a short look beyond them, in the packages
# that read what comes from outside.
.PHONY: test-fuzz
test-fuzz:
	@scripts/fuzz.sh 100x

.PHONY: lint
lint: setup
	@echo "gofumpt"; bad=$$($(TOOL) gofumpt -l .); if [ -n "$$bad" ]; then echo "not formatted (run 'make fmt'):" >&2; echo "$$bad" >&2; exit 1; fi
	@scripts/console.sh check
	@scripts/targets.sh
	@echo "actionlint"; scripts/actionlint.sh
	$(GO) vet -tags faults,agents ./internal/fault ./internal/e2e
	@if command -v "$${CC:-gcc}" >/dev/null; then set -x; CGO_ENABLED=1 $(GO) vet -tags escape ./cmd/palyra-wasm ./internal/wasm/...; fi
	GOGC=200 $(TOOL) staticcheck ./...

.PHONY: vet-targets
vet-targets: setup ## compile everything for linux, darwin and windows on amd64 and arm64: minutes each at first; TARGETS='linux/arm64 …'
	@scripts/targets.sh compile $(TARGETS)

.PHONY: check
check: lint ## linters only: gofumpt, vet, staticcheck, govulncheck (VULNDB=file:///… for an offline database)
	@scripts/vuln.sh

.PHONY: fmt
fmt: ## format all Go files
	$(TOOL) gofumpt -w .

.PHONY: gen
gen: ## generate api/gen from the protos, and the man pages
	@scripts/setup.sh gen
	@scripts/gen.sh

.PHONY: check-gen
check-gen: gen ## generate again and refuse a difference to what is checked in
	@git diff --exit-code --stat -- api docs/man
	@test -z "$$(git status --porcelain -- api docs/man)" || { git status --short -- api docs/man; exit 1; }

.PHONY: console
console: ## build the console into internal/web/dist, which is checked in (npm installs Node below the cache directory)
	@scripts/console.sh

.PHONY: console-types
console-types: ## generate the console's types from the protos, then build it
	@scripts/console.sh types

.PHONY: screenshots
screenshots: ## draw the pictures of the console and the terminal UI in docs/images, in Chromium
	@scripts/setup.sh test
	@mkdir -p docs/images
	PALYRA_PICTURES=$(CURDIR)/docs/images $(GO) test -count 1 -run 'TestTheLooksOfTheConsole|TestTerminalUI$$' ./internal/e2e

.PHONY: bench
bench: ## one table of what has a hold, beside other sandboxes; BENCH=regexp (. is everything) BENCHTIME=2s ROUNDS=3 COPY=bin/bench.json
	@scripts/setup.sh test
	@scripts/peers.sh '$(subst holds,Peers,$(BENCH))'
	@scripts/bench.sh '$(BENCH)' '$(BENCHTIME)' '$(ROUNDS)' '$(COPY)'

.PHONY: bench-check
bench-check: ## compare two runs of 'make bench' and name what got slower than noise; BEFORE=old.json AFTER=bin/bench.json
	@cd tools && $(GO) build -o ../bin/benchtable ./benchtable
	@bin/benchtable check '$(BEFORE)' '$(AFTER)'

.PHONY: fuzz
fuzz: setup ## fuzz everything that reads from outside (FUZZTIME=30s each, FUZZ=regexp), then new draws of every property (DRAWS=1000)
	@scripts/fuzz.sh $(FUZZTIME) '$(FUZZ)'
	RAPID_CHECKS=$(DRAWS) $(TOOL) gotestsum --format pkgname -- -count 1 -timeout 4h \
		$$(grep -rl --include='*_test.go' pgregory.net/rapid ./internal | xargs -n 1 dirname | sort -u)

.PHONY: faults
faults: ## kill -9 at every durable step, at random times and during runs, and programs that will not die, in full
	@scripts/setup.sh test
	PALYRA_FAULTS=full PALYRA_SANDBOX_TRIES=100 $(TOOL) gotestsum --format testname -- -count 1 -timeout 60m \
		./internal/e2e ./internal/sandbox/sandboxtest ./internal/sandbox/bubble ./internal/sandbox/bwrap ./internal/stage ./internal/vault

.PHONY: soak
soak: ## what takes hours, as far as CHECKS=5000 SCRIPTS=10000 ROOMS=10000 SOAK=1h say: corpus, scripts, rooms, a daemon under load
	@scripts/setup.sh test
	$(TOOL) gotestsum --format testname -- -count 1 -timeout 4h -run GeneratedScripts ./internal/stage -rapid.checks=$(SCRIPTS)
	PALYRA_CORPUS=full $(TOOL) gotestsum --format testname -- -count 1 -timeout 4h -run 'Corpus|Rust|Index|Ladder|Error' ./internal/policy -rapid.checks=$(CHECKS)
	PALYRA_CORPUS=full $(TOOL) gotestsum --format testname -- -count 1 -timeout 4h -run EveryByte ./internal/attest ./cmd/palyra-verify
	PALYRA_ROOMS=$(ROOMS) $(TOOL) gotestsum --format testname -- -count 1 -timeout 4h -run RoomsLeaveNothing ./internal/e2e
	PALYRA_SOAK=$(SOAK) $(TOOL) gotestsum --format testname -- -count 1 -timeout 25h -run Soak ./internal/e2e

.PHONY: race
race: ## all tests under the race detector (needs gcc; slow); RACE=./internal/journal
	@scripts/setup.sh race
	CGO_ENABLED=1 $(TOOL) gotestsum --format pkgname -- -race -timeout 60m $(RACE)

.PHONY: cover
cover: setup ## test coverage, total and as coverage.html
	$(GO) test -coverpkg ./... -coverprofile coverage.out ./...
	$(GO) tool cover -html coverage.out -o coverage.html
	@$(GO) tool cover -func coverage.out | tail -n 1

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist coverage.out coverage.html
