#!/usr/bin/env bash
# Packs the feature for development containers with the programs of bin/, as OUT/devcontainer-feature-palyra.tgz.
#   scripts/devcontainer.sh OUT [PROGRAMS]
set -euo pipefail
out=${1:?a directory for the package} programs=${2:-bin}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t said < <(scripts/node.sh internal/e2e/devcontainer-node)
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
cp -r devcontainer/src "$there/"
into=$there/src/palyra/programs
mkdir "$into"
for p in palyra palyra-full palyra-tui palyrad palyra-cell palyra-verify palyra-sign; do
	install -m 0755 "$programs/$p" "$into/"
done
if [ -e "$programs/palyra-wasm" ]; then # not built without a C compiler
	install -m 0755 "$programs/palyra-wasm" "$into/"
fi
(cd "$into" && sha256sum palyra* >SHA256SUMS && uname -m >machine)
PATH="${said[0]}:$PATH" "${said[1]}/node_modules/.bin/devcontainer" features package "$there/src" --output-folder "$there/out" >&2
mkdir -p "$out"
cp "$there/out/devcontainer-feature-palyra.tgz" "$out/"
echo "$out/devcontainer-feature-palyra.tgz"
