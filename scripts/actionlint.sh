#!/usr/bin/env bash
# Checks the action for GitHub, and the workflow that shows it, as they would lie in a repository; and that the check
# sees a mistake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lint=$(go tool -n -modfile=tools/go.mod actionlint)
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
mkdir -p "$there/.git" "$there/.github/workflows"
cp -r action "$there/"
cp action/example.yml "$there/.github/workflows/"
cd "$there"
"$lint" -no-color .github/workflows/example.yml
sed -i 's/run: make test/command: make test/' .github/workflows/example.yml
if "$lint" -no-color .github/workflows/example.yml >/dev/null 2>&1; then
	echo "actionlint.sh: an input that the action does not have is not seen" >&2
	exit 1
fi
