#!/usr/bin/env bash
# Generates what is generated: Go code from the protos, man pages from the
# commands. The plugins are the ones pinned in tools/go.mod.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

plugins=$(mktemp -d)
trap 'rm -rf "$plugins"' EXIT
go build -modfile=tools/go.mod -o "$plugins/" \
	google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
PALYRA_GEN_BIN=$plugins api/generate.sh
find api/gen -name '*.go' -print0 | xargs -0 go tool -modfile=tools/go.mod gofumpt -w # named one by one: it skips generated files else

rm -rf docs/man
mkdir -p docs/man
go run ./cmd/palyra-full man docs/man
