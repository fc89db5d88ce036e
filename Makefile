# Work on cairn. `make` alone says what there is.

GO            ?= go
GOLANGCI_LINT ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# A command that fails in front of a pipe fails the target.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

# What tells long stories to whole processes: with the race detector in every one of them it takes minutes and
# finds nothing that the packages' own tests do not.
stories := server/conformity|cli/demo/workspace

# The race detector watches everything but the inside of SQLite, which is C in another language: one connection is used
# by one goroutine at a time, and watching each of its memory accesses takes a quarter of the whole time.
unwatched := github.com/ncruces/go-sqlite3-wasm/...

.DEFAULT_GOAL := help
.PHONY: help build run test lint verify bench demo team docs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/cairn
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/cairn ./cmd/cairn

run: ## Serve on 127.0.0.1:8787 with a SQLite file
	$(GO) run ./cmd/cairn serve

test: ## Run every test on both engines, with the race detector
	@scripts/need-compiler
	@scripts/need-postgres
	$(GO) run ./internal/testkit/withpostgres $(GO) test -race -gcflags='$(unwatched)=-race=false' -timeout 15m \
		$$($(GO) list ./... | grep -vE '/($(stories))$$')
	$(GO) run ./internal/testkit/withpostgres $(GO) test -v -timeout 10m ./internal/server/conformity | grep -vE '^ *(=== |--- PASS)'
	$(GO) run ./internal/testkit/withpostgres $(GO) test -timeout 10m ./internal/cli/demo/workspace

lint: ## Run every linter
	$(GOLANGCI_LINT) run ./...

verify: ## Run everything that must be green: what .ci/run does
	@bash .ci/run

bench: build ## Measure throughput, latency and memory against baselines, into docs/benchmarks.md
	@scripts/need-postgres
	$(GO) run ./internal/testkit/withpostgres -fsync bin/cairn bench sessions --write docs/benchmarks.md
	$(GO) run ./internal/testkit/withpostgres -fsync bin/cairn bench workspace --write docs/benchmarks.md

demo: ## Watch one session on several devices, without anything to set up
	$(GO) run ./cmd/cairn demo

team: ## Watch a team on seven devices, through drops, revocations and a restore
	$(GO) run ./cmd/cairn demo workspace

docs: ## Generate the pages that come from code
	$(GO) test ./internal/config -run TestDocumentationIsCurrent -update
	$(GO) test ./internal/api/workspace -run TestDocumentsAreCurrent -update
