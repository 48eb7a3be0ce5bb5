#!/usr/bin/env bash
# Starts the daemon that 'make build' built and plays the first demo.
#
# The daemon goes on in the background on its embedded defaults. On a terminal
# the demo's question is put to you; without one, or with CI=true, the demo
# answers itself. With CI=true the daemon also gets a state directory of its own
# and is stopped again at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

palyra=$PWD/bin/palyra
interactive=false
if [ "${CI:-}" != true ] && [ -t 0 ] && [ -t 1 ] && [ -t 2 ]; then
	interactive=true
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/palyra-demo.XXXXXX")
demo=
cleanup() {
	if [ -n "$demo" ]; then
		kill "$demo" 2>/dev/null || true
	fi
	"$palyra" workspace remove "$work" >/dev/null 2>&1 || true
	rm -rf "$work"
	if [ "${CI:-}" = true ]; then
		"$palyra" down >/dev/null 2>&1 || true
		rm -rf "$PALYRA_HOME" "$PALYRA_PROCESS_DIR" "$PALYRA_PROCESS_DIR-caches" "$PALYRA_PROCESS_DIR-posture"
	fi
}
trap cleanup EXIT
if [ "${CI:-}" = true ]; then
	PALYRA_HOME=$(mktemp -d "${TMPDIR:-/tmp}/palyra-home.XXXXXX")
	# A root daemon keeps what runs need outside of its home; here it must go with it.
	PALYRA_PROCESS_DIR=$PALYRA_HOME-cells
	export PALYRA_HOME PALYRA_PROCESS_DIR
fi

# field NAME reads a value out of a line of JSON.
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -n 1; }

title() { printf '\n== %s\n' "$*"; }

if "$palyra" status >/dev/null 2>&1; then
	echo "run: a daemon runs already; the demo uses it"
else
	"$palyra" up --detach
fi

title "a workspace for the demo"
printf 'Palyra stands between agents and this machine.\n' >"$work/notes.txt"
"$palyra" workspace add "$work"

title "an agent's run: some calls are allowed, one asks, one is refused"
if $interactive; then
	"$palyra" run --script demo/first.yaml --workspace "$work"
else
	run=$("$palyra" run --script demo/first.yaml --workspace "$work" --detach --json | field run_id)
	"$palyra" runs attach "$run" </dev/null 2>&1 | cat &
	demo=$!
	# The run's own tape says which question is its own; no other is answered.
	asked=
	while read -r line; do
		if [[ $line == *'"approval_requested"'* ]]; then
			asked=$line
			break
		fi
	done < <("$palyra" runs attach "$run" --json </dev/null 2>/dev/null)
	if [ -n "$asked" ]; then
		echo "run: nobody is at a terminal; the demo answers its own question"
		"$palyra" approvals decide "$(field approval_id <<<"$asked")" allow --digest "$(field plan_digest <<<"$asked")" </dev/null 2>&1 | cat
	fi
	wait "$demo"
fi

title "the record of it, checked from the first line to the last"
"$palyra" journal verify

title "where to go next"
run="palyra"
if [ "$(command -v palyra 2>/dev/null)" != "$palyra" ]; then
	echo "  export PATH=\"$PWD/bin:\$PATH\"${PALYRA_HOME:+ PALYRA_HOME=\"$PALYRA_HOME\"}"
fi
cat <<TXT
  $run workspace add .               a directory for agents to work in: yours
  $run exec -- ls -l                 run a program through the gate
  $run runs list                     what agents did; 'runs attach ID' tells it again
  $run approvals list --pending      what waits for an answer
  $run journal tail                  the log nobody can quietly change
  $run down                          stop the daemon
README.md goes on from there.
TXT
if $interactive; then
	title "the same in a browser: a link that signs one in, once"
	"$palyra" console || echo "run: there is no link now; once what it says is mended: $run console" >&2
fi
