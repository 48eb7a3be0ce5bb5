#!/usr/bin/env bash
# Installs other sandboxes for 'make bench' to be measured beside Palyra in one
# run: 'codex sandbox' and 'srt', where npm has them. Without them the benchmark
# says so and goes on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$PWD/bin/peers
if [ -d "$dir/node_modules" ]; then
	exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
	echo "bench: npm is not here, so other sandboxes are not measured" >&2
	exit 0
fi
mkdir -p "$dir"
for package in @openai/codex@0.166.0 @anthropic-ai/sandbox-runtime@0.0.78; do
	npm install --silent --no-fund --no-audit --prefix "$dir" "$package" >/dev/null 2>&1 ||
		echo "bench: $package cannot be installed here and is not measured" >&2
done
