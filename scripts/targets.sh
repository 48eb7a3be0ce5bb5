#!/usr/bin/env bash
# Vets every package, tests included, for every system and processor that Palyra is written for: what is only compiled
# elsewhere must at least compile. Everything is pure Go, so no system needs another's headers; a program with cgo would
# be left out by its build tags. What was vetted before comes from the build cache: minutes at first, seconds then.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
targets=${*:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
for target in $targets; do
  echo "vet $target"
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} nice "$go" vet ./...
done
