package hook

import "regexp"

// What a probe of the doctor's has the hook do, by the mark in the call.
const (
	ProbeAllow   = "allow"
	ProbeDeny    = "deny"
	ProbeRewrite = "rewrite"
	ProbeExit    = "exit"  // the program fails
	ProbeCrash   = "crash" // its shell is killed
)

// probeForm is the form of a mark: what the hook shall do, and whose call it is.
var probeForm = regexp.MustCompile(`palyra-probe-(allow|deny|rewrite|exit|crash)-([a-z0-9]{1,32})`)

// ProbeMark is a mark.
func ProbeMark(does, name string) string { return "palyra-probe-" + does + "-" + name }

// ReadProbe finds the mark in a call.
func ReadProbe(text string) (does, mark string, ok bool) {
	m := probeForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	return m[1], m[0], true
}

// ProbeAsked is the file, in the doctor's directory, with what the hook was asked; ProbeDone the ending of the name of
// one that a rewritten command makes where it runs.
const (
	ProbeAsked = "asked.jsonl"
	ProbeDone  = ".rewritten"
)
