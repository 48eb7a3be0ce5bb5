package explain

import (
	"fmt"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/rpc/wire"
	"palyra/internal/skill"
	"palyra/internal/wasm"
)

// What is advised of skills, where more than one reason wants it.
const (
	mendModule  = "its author has to mend the module: docs/skills-abi.md says what it is offered and what it must have"
	tellAuthor  = "look at what the module logged ('palyra calls show CALL'), and tell its author"
	needsLess   = "give it less to do at once; the limit is the runtime's, and its author can do with less"
	limitOf     = "give it less to do at once, or have its author raise %s in [limits] of skill.toml; an operator installs that as an update"
	onceMore    = "propose it again; if that goes on, quarantine the skill ('palyra skills quarantine ID') and see the daemon's log"
	packAgain   = "nothing was installed: have its publisher pack and sign it again, and fetch it again"
	lookAtSkill = "have an operator look at it: 'palyra skills show ID'"
)

// advice is what to do about a reason that skills have: every one of them is here.
var advice = map[palyra.Reason]string{
	wasm.ReasonBadModule:  mendModule,
	wasm.ReasonImport:     mendModule,
	wasm.ReasonExport:     mendModule,
	wasm.ReasonTooLarge:   "its author has to make the module smaller, such as by stripping its symbols",
	wasm.ReasonCompile:    "its author has to make the module smaller: it was not compiled within its time and memory",
	wasm.ReasonDigest:     "install the skill again: its module is not the one that was installed",
	wasm.ReasonFuel:       fmt.Sprintf(limitOf, "fuel"),
	wasm.ReasonDeadline:   fmt.Sprintf(limitOf, "timeout_ms") + "; the most there can be is tool_call.execution_timeout_ms",
	wasm.ReasonMemory:     fmt.Sprintf(limitOf, "memory_mib"),
	wasm.ReasonTable:      needsLess,
	wasm.ReasonInstances:  needsLess,
	wasm.ReasonStack:      "its author has to mend the module: it calls itself too deeply",
	wasm.ReasonOutput:     "ask it for less at once",
	wasm.ReasonInput:      "send less at once",
	wasm.ReasonHostCalls:  needsLess,
	wasm.ReasonHostBytes:  needsLess,
	wasm.ReasonTrap:       tellAuthor,
	wasm.ReasonHandle:     "do not trust this skill, which guesses what it was not given: 'palyra skills quarantine ID'",
	wasm.ReasonPointer:    mendModule,
	wasm.ReasonExit:       tellAuthor,
	wasm.ReasonNotJSON:    "its author has to have it write JSON, and nothing else, to stdout",
	wasm.ReasonWorkerDied: onceMore,
	wasm.ReasonWorkerLied: onceMore,
	wasm.ReasonStalled:    onceMore,
	wasm.ReasonNotGranted: "if it is to have that, skill.toml must ask for it, and you grant it: 'palyra skills enable ID --grant KIND:VALUE'",
	wasm.ReasonNoRuntime:  "'palyra status' says why skills are off; where palyra-wasm was not built: install a C compiler, and 'make build'",

	skill.ReasonManifest:  "have its author correct skill.toml; docs/skills.md has every member",
	skill.ReasonArchive:   packAgain,
	skill.ReasonTooLarge:  "have its author leave out what the skill does not need",
	skill.ReasonName:      packAgain,
	skill.ReasonCompress:  packAgain,
	skill.ReasonUnsigned:  "have its publisher sign it: 'palyra skills sign FILE'",
	skill.ReasonSignature: "take it for forged: fetch it again from its publisher, and compare the key on another way",
	skill.ReasonPublisher: "take it for forged unless you know why it changed hands; 'palyra skills remove ID --forget' lets go of the id",
	skill.ReasonUntrusted: "compare the key with what its publisher says, then: palyra skills trust add NAME KEY; a revoked key stays so",
	skill.ReasonDowngrade: "install a newer version; to go back, 'palyra skills remove ID' comes first",
	skill.ReasonWidened:   "look at what it wants more; 'palyra skills install FILE --widen' takes it in quarantine",
	skill.ReasonABI:       "have its publisher build it for the version of the ABI that is offered here",
	skill.ReasonState:     lookAtSkill,
	skill.ReasonDenied:    "grant what the skill asks for, or less: 'palyra skills show ID' says what that is",
	skill.ReasonNoRuntime: "'palyra status' says why skills are off",
	skill.ReasonTaken:     lookAtSkill + "; what it did until then is on record",
	skill.ReasonFailed:    tellAuthor,
	skill.ReasonNoRuns:    "have it do its work a few times first",
}

// ofSkill is the change for a call that ended for a reason of skills. Nothing of it can be tried without running the module.
func ofSkill(e *wire.Explanation, now palyra.Effect) (wire.Flip, bool) {
	reason := e.ReasonCode
	if reason == palyra.ReasonTimedOut && e.Plan.Source == palyra.SourceSkill {
		reason = wasm.ReasonDeadline
	}
	text, ok := advice[reason]
	f := wire.Flip{Kind: flipAccess, Text: text, Becomes: now}
	if e.Layer == palyra.LayerLimit {
		f.Kind = flipLimit
	}
	if now == palyra.Deny {
		f.Becomes = palyra.Ask
	}
	return untried(f, openRun), ok
}

// maxToldRefusals is how many refused host calls are told.
const maxToldRefusals = 8

// describeHostCalls says what a skill's tool asked for while it ran and was refused, and what to do about it.
func describeHostCalls(ran *palyra.Runtime) (out []string) {
	if ran == nil || len(ran.Refused) == 0 {
		return nil
	}
	var reasons []palyra.Reason
	for i, line := range ran.Refused {
		reason, what, _ := strings.Cut(line, " ")
		if i < maxToldRefusals {
			out = append(out, fmt.Sprintf("while it ran, %s was refused (%s)", what, reason))
		}
		if !slices.Contains(reasons, palyra.Reason(reason)) {
			reasons = append(reasons, palyra.Reason(reason))
		}
	}
	if more := len(ran.Refused) - maxToldRefusals; more > 0 {
		out = append(out, fmt.Sprintf("and %d more; its attestation has them all", more))
	}
	for _, r := range reasons {
		if text := advice[r]; text != "" { // of other reasons the calls of their own tell
			out = append(out, string(r)+": "+text)
		}
	}
	return out
}
