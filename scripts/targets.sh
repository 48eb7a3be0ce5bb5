#!/usr/bin/env bash
# Vets every package, tests included, for every system and processor that Palyra is written for. Everything is pure Go, so
# no system needs another's headers; a program with cgo would be left out by its build tags.
#
#   targets.sh                    this machine by "go vet", the others from source (tools/vettargets): a minute, and
#                                 seconds where packages and all that they import are as they were
#   targets.sh compile [TARGET…]  each by "go vet" and "go build": minutes each at first, from the build cache then
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
all="linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64"
if [ "${1:-}" = compile ]; then
  shift
  for target in ${*:-$all}; do
    echo "vet and build $target"
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} nice "$go" vet ./...
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} nice "$go" build -o /dev/null ./...
  done
  exit
fi

here="$("$go" env GOHOSTOS)/$("$go" env GOHOSTARCH)"
others=$(tr ' ' '\n' <<<"$all" | grep -vx "$here" | tr '\n' ' ')
echo "vet $here"
CGO_ENABLED=0 "$go" vet ./...
echo "vet $others"
(cd tools && "$go" test ./... && "$go" build -trimpath -buildvcs=false -o ../bin/vettargets ./vettargets)
# It builds up once what it needs to the end: collecting garbage as often as usual is a third of its time.
# shellcheck disable=SC2086 # a list of words
GOGC=400 bin/vettargets -kept "$("$go" env GOCACHE)/palyra-vettargets" . $others
