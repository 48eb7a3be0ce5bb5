#!/usr/bin/env bash
# Runs one command of a CI job through Palyra: a daemon of the job's own under the preset ci, the command in tier C, and
# what is evidence of it in a directory: the outcome with its attestation, the journal, a proof that it is in there,
# and the keys to check them with. Its exit code is the command's, or Palyra's own.
#
# From the action: PALYRA_RUN (the command), PALYRA_BIN (where the programs are; empty: bin of this repository).
# From the runner: GITHUB_WORKSPACE, RUNNER_TEMP, GITHUB_OUTPUT, GITHUB_STEP_SUMMARY.
set -euo pipefail

: "${PALYRA_RUN:?the input run is missing}" "${GITHUB_WORKSPACE:?}" "${RUNNER_TEMP:?}"
bin=${PALYRA_BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/bin}
PATH=$bin:$PATH
evidence=$RUNNER_TEMP/palyra-evidence
export PALYRA_HOME=$RUNNER_TEMP/palyra-home PALYRA_POLICY_PRESET=ci
mkdir -p "$evidence"

palyra up --detach
trap 'palyra down >&2 || true' EXIT
palyra workspace add "$GITHUB_WORKSPACE"

code=0
palyra exec --json --no-stdin --no-wait --tier c --workspace "$GITHUB_WORKSPACE" -- /bin/sh -c "$PALYRA_RUN" \
	>"$evidence/outcome.json" || code=$?

# field FIELD: a word of the outcome, which is one JSON object; no other program is needed to read it.
field() { grep -o "\"$1\":[^,}]*" "$evidence/outcome.json" | head -n 1 | sed -e 's/^[^:]*://' -e 's/^"//' -e 's/"$//'; }

palyra keys export --out "$evidence/trust.json"
palyra journal export --out "$evidence/journal.ndjson"
position=$(field journal_position || true)
case $position in
'' | 0 | *[!0-9]*) ;; # refused calls have none
*) palyra journal proof "$position" --out "$evidence/proof.json" ;;
esac

outcome=$(field outcome || true) reason=$(field reason_code || true)
verified="not attested: nothing ran"
if grep -q '"attestation":{' "$evidence/outcome.json"; then
	verified="attestation **not** verified"
	if palyra attest verify "$evidence/outcome.json" --key "$evidence/trust.json" >&2; then verified="attestation verified"; fi
fi
{
	echo "### Palyra: ${outcome:-failed}${reason:+ ($reason)}"
	echo
	echo "Exit code $code, call $(field call_id || true), preset ci, $verified."
	echo "Evidence: outcome, journal, proof and keys, in the artifact. Check it with \`palyra-verify\`."
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
echo "exit-code=$code" >>"${GITHUB_OUTPUT:-/dev/null}"
echo "palyra: ${outcome:-failed}${reason:+ ($reason)}, exit code $code" >&2
exit "$code"
