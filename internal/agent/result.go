package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"palyra"
	"palyra/internal/canon"
)

// Artifacts keeps outputs that are too long for a model.
type Artifacts interface {
	// Keep stores data of a call for its session.
	Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error)
}

// modelOutcome is an outcome as a model is told it. What a tool gave stands under untrusted and nowhere else.
type modelOutcome struct {
	Outcome    palyra.OutcomeKind `json:"outcome"`
	ReasonCode palyra.Reason      `json:"reason_code,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Remedy     string             `json:"remedy,omitempty"`
	ExitCode   *int               `json:"exit_code,omitempty"`
	Signal     string             `json:"signal,omitempty"`
	Truncated  bool               `json:"truncated,omitempty"`
	Untrusted  map[string]any     `json:"untrusted,omitempty"`
}

// cut is the short form of a long output for a model.
type cut struct {
	Truncated bool      `json:"truncated"` // always true
	Size      int       `json:"size"`
	Artifact  palyra.ID `json:"artifact_id,omitempty"` // where all of it is
	Head      string    `json:"head"`
	Tail      string    `json:"tail"`
	Note      string    `json:"note"`
}

// teller puts outcomes into words for a model, within a bound.
type teller struct {
	keep Artifacts // nil: nothing is kept
	most int       // bytes of tool output in one result
}

// tell says what became of a call.
func (t teller) tell(ctx context.Context, o palyra.Outcome) (text string, failed bool) {
	d := modelOutcome{
		Outcome: o.Outcome, ReasonCode: o.ReasonCode, Reason: palyra.Clip(o.Reason, 2000), Remedy: palyra.Clip(o.Remedy, 2000),
		Signal: o.Signal, Truncated: o.Truncated, Untrusted: map[string]any{},
	}
	failed = o.Outcome != palyra.OutcomeFinished || o.ReasonCode != ""
	ran := o.Stdout+o.StdoutB64+o.Stderr+o.StderrB64 != "" || o.ExitCode != 0 || o.Signal != ""
	if ran && o.Outcome == palyra.OutcomeFinished {
		d.ExitCode = &o.ExitCode
	}
	left := t.most
	for _, s := range []struct{ name, text string }{
		{"stderr", o.Stderr}, {"stderr_b64", o.StderrB64}, {"stdout", o.Stdout}, {"stdout_b64", o.StdoutB64},
	} {
		if s.text == "" {
			continue
		}
		share := left
		if s.name == "stderr" || s.name == "stderr_b64" {
			share = t.most / 4
		}
		left -= min(len(s.text), share)
		d.Untrusted[s.name] = t.short(ctx, o, s.text, share)
	}
	if out := bytes.TrimSpace(o.Output); len(out) > 0 && string(out) != "null" {
		d.Untrusted["output"] = json.RawMessage(out)
		if len(out) > left || !json.Valid(out) {
			d.Untrusted["output"] = t.short(ctx, o, string(out), left)
		}
	}
	return encode(d), failed
}

// short is a text, or its two ends when it is longer than most.
func (t teller) short(ctx context.Context, o palyra.Outcome, text string, most int) any {
	if len(text) <= most {
		return text
	}
	end := max(most/2, 64)
	c := cut{
		Truncated: true, Size: len(text), Head: headOf(text, end), Tail: tailOf(text, end),
		Note: "only the two ends are shown; ask for less, or read the rest with the tool for artifacts",
	}
	if t.keep != nil {
		id, err := t.keep.Keep(ctx, o.SessionID, o.CallID, []byte(text))
		if err != nil {
			c.Note = "only the two ends are shown, and the rest could not be kept: " + palyra.AsError(err).Text
		}
		c.Artifact = id
	}
	return c
}

func headOf(s string, n int) string {
	n = min(n, len(s))
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func tailOf(s string, n int) string {
	i := max(0, len(s)-n)
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// encode writes JSON with its signs as they are.
func encode(v any) string {
	text, err := canon.JSON(v)
	if err != nil { // an output that is not JSON was put in as a text
		return `{"outcome":"unknown","reason":"the outcome cannot be told"}`
	}
	return string(text)
}
