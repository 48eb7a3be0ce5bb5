#!/bin/sh
# Generates api/gen from the protos. The result is checked in; continuous
# integration runs this again and refuses a difference. Versions are exact and
# nothing remote is used: the plugins are built here, buf comes from npm.
set -eu
cd "$(dirname "$0")"

BUF_VERSION=1.74.0
GEN_GO=google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GEN_CONNECT=connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1

bin=${PALYRA_GEN_BIN:-$(mktemp -d)}
case ${PALYRA_GEN_BIN:-} in '') trap 'rm -rf "$bin"' EXIT ;; esac
for tool in "$GEN_GO" "$GEN_CONNECT"; do
	name=${tool##*/}
	[ -x "$bin/${name%%@*}" ] || (cd / && GOBIN="$bin" GOFLAGS= go install "$tool")
done

PATH="$bin:$PATH"
export PATH
buf() { npx --yes "@bufbuild/buf@$BUF_VERSION" "$@"; }
buf format -w
buf lint
buf generate
