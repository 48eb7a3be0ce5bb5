#!/usr/bin/env bash
# Installs the real agents that Palyra stands in front of, at the versions that were
# tried, below the cache directory, and drives them against a model of the test's own:
# bin/agents/table.md says what each model was given and whether that was right, and the files
# beside it have every byte. By hand, not a part of 'make test'; about ten minutes.
#
#   make agents                          install, then drive all
#   scripts/agents.sh -run TestAgents/codex-exec
#   PALYRA_AGENTS_SCENES=denied scripts/agents.sh    only the cases with such a name
#   PALYRA_AGENTS_RECORD=1 scripts/agents.sh     also write what clients sent to testdata
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=${PALYRA_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/palyra-agents}
packages="@anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 opencode-ai@1.18.33 @google/gemini-cli@0.61.0 @github/copilot@1.0.102"
packages+=" @zed-industries/claude-code-acp@0.16.2 @zed-industries/codex-acp@0.16.0 @agentclientprotocol/claude-agent-acp@0.100.0"

if [ "$(cat "$dir/.installed" 2>/dev/null)" != "$packages" ]; then
	command -v npm >/dev/null 2>&1 || { echo "agents.sh: npm is missing" >&2; exit 1; }
	mkdir -p "$dir"
	# shellcheck disable=SC2086 # a list of words
	npm install --prefix "$dir" --no-audit --no-fund --loglevel=error $packages >&2
	echo "$packages" >"$dir/.installed"
fi
command -v tmux >/dev/null 2>&1 || echo "agents.sh: tmux is missing; Codex's window is not tried" >&2

export PALYRA_AGENTS=$dir
exec go test -tags agents -count 1 -timeout 60m -parallel 4 -v ./internal/e2e -run "${2:-TestAgents}"
