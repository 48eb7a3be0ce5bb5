package agent

import (
	"encoding/json"

	"palyra"
)

// Transcript is what happened in a run so far, oldest turn first. It is bounded:
// large outputs are left out of it, then the oldest turns.
type Transcript struct {
	Run     palyra.Run
	Turn    int64 // the number of the turn asked for; the first is 1
	Past    []Past
	Dropped int64    // turns that no longer stand in Past
	Inputs  []string // said to the run since the last turn

	memory memory // nil: there is none
}

// Past is a turn that was taken.
type Past struct {
	Inputs []string // what it had heard
	Text   string
	Calls  []Made
}

// Made is a call and what became of it. The outcome's attestation is left out.
type Made struct {
	Call    ToolCall
	Outcome palyra.Outcome
}

// Bounds of a transcript.
const (
	maxTranscript = 8 << 20
	maxField      = 1 << 20 // of an output or of arguments
)

// add takes a turn into the transcript.
func (t *Transcript) add(p Past) {
	for i := range p.Calls {
		p.Calls[i] = p.Calls[i].slim()
	}
	t.Past = append(t.Past, p)
	size := 0
	for i := len(t.Past) - 1; i >= 0; i-- {
		if size += t.Past[i].size(); size > maxTranscript && i < len(t.Past)-1 { // the last turn always stays
			t.Dropped += int64(i) + 1
			t.Past = append([]Past(nil), t.Past[i+1:]...)
			break
		}
	}
}

// slim removes parts that are too large to carry along. The call on record has them.
func (m Made) slim() Made {
	cut := func(raw json.RawMessage) json.RawMessage {
		if len(raw) > maxField {
			return json.RawMessage("null")
		}
		return raw
	}
	m.Call.Arguments, m.Call.Check = cut(m.Call.Arguments), nil
	o := &m.Outcome
	o.Attestation = nil
	if len(o.Output) > maxField || len(o.Stdout)+len(o.StdoutB64) > maxField || len(o.Stderr)+len(o.StderrB64) > maxField {
		o.Truncated = true
	}
	o.Output, o.Stdout, o.Stderr = cut(o.Output), palyra.Clip(o.Stdout, maxField), palyra.Clip(o.Stderr, maxField)
	if len(o.StdoutB64) > maxField {
		o.StdoutB64 = ""
	}
	if len(o.StderrB64) > maxField {
		o.StderrB64 = ""
	}
	return m
}

// size is about how many bytes a turn takes up.
func (p Past) size() int {
	n := len(p.Text) + 256
	for _, s := range p.Inputs {
		n += len(s)
	}
	for _, m := range p.Calls {
		o := m.Outcome
		n += 512 + len(m.Call.Arguments) + len(o.Output) + len(o.Stdout) + len(o.StdoutB64) + len(o.Stderr) + len(o.StderrB64) +
			len(o.Reason) + len(o.Remedy)
	}
	return n
}
