#!/usr/bin/env bash
# Builds palyra-wasm, the one program with C in it, where there is a C compiler: static, because it runs where there
# are no files.
#   scripts/wasm.sh DIR
set -euo pipefail
dir=${1:?a directory for the program}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rm -f "$dir/palyra-wasm"
if [ "$(uname -s)" != Linux ] || ! command -v "${CC:-gcc}" >/dev/null 2>&1; then
	echo "palyra-wasm is not built: there is no C compiler here; skills are off" >&2
	exit 0
fi
echo "CGO_ENABLED=1 go build -o $dir/ ./cmd/palyra-wasm"
if ! said=$(CGO_ENABLED=1 "${GO:-go}" build -trimpath -ldflags '-s -w -linkmode external -extldflags -static' -o "$dir/" ./cmd/palyra-wasm 2>&1); then
	echo "$said" >&2
	echo "palyra-wasm is not built: the C compiler cannot link programs that need no files (on Debian or Ubuntu: libc6-dev); skills are off" >&2
fi
