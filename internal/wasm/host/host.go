// Package host does what modules of skills ask for, by what Palyra has: requests are calls of palyra.http.fetch, and other
// tools are called as well, all through the gate. So every one is judged, recorded and attested for itself, goes out by the
// egress guard only, and has its secrets put in at the last moment, where their bindings say.
//
// Its words are those of docs/words.md.
package host

import (
	"context"
	"encoding/base64"
	"encoding/json"

	"palyra"
	"palyra/internal/wasm"
)

// Gate calls a tool for the call that a module works for, as the same principal in the same session.
type Gate func(ctx context.Context, tool palyra.ToolName, arguments json.RawMessage) (palyra.Outcome, error)

// New returns what does the work of a call's modules. Nothing of it shows values of secrets.
func New(gate Gate, keys wasm.Keys) wasm.Host {
	return wasm.Host{Web: web{gate}, Tools: tools{gate}, Keys: keys}
}

// tools calls tools.
type tools struct{ gate Gate }

// maxOutcome is how much of an outcome a module gets.
const maxOutcome = 4 << 20

// Invoke implements wasm.Tools. What was refused is an outcome as well.
func (t tools) Invoke(ctx context.Context, name string, input json.RawMessage) (json.RawMessage, error) {
	o, err := t.gate(ctx, palyra.ToolName(name), input)
	if err != nil {
		return nil, err
	}
	o.Attestation = nil // it is kept, and large
	b, err := o.Marshal()
	if err == nil && len(b) > maxOutcome {
		err = palyra.Errorf(palyra.Exhausted, wasm.ReasonHostBytes, "the outcome of %s has %d bytes", palyra.Clip(name, 100), len(b))
	}
	return b, err
}

// web makes requests by palyra.http.fetch.
type web struct{ gate Gate }

// fetchArguments are those of palyra.http.fetch.
type fetchArguments struct {
	URL      string            `json:"url"`
	Method   string            `json:"method,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	BodyB64  string            `json:"body_b64,omitempty"`
	Follow   int               `json:"follow"` // never: another host is another permit
	Bindings []string          `json:"bindings,omitempty"`
}

// fetched is its result.
type fetched struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      *string           `json:"body"`
	BodyB64   []byte            `json:"body_b64"`
	Truncated bool              `json:"truncated"`
}

// Request implements wasm.Web.
func (w web) Request(ctx context.Context, _ string, r wasm.HTTPRequest) (wasm.HTTPResponse, error) {
	a := fetchArguments{URL: r.URL, Method: r.Method, Headers: r.Headers, Bindings: r.Secrets}
	if len(r.Body) > 0 {
		a.BodyB64 = base64.StdEncoding.EncodeToString(r.Body)
	}
	arguments, err := json.Marshal(a)
	if err != nil {
		return wasm.HTTPResponse{}, err
	}
	o, err := w.gate(ctx, palyra.ToolFetch, arguments)
	if err != nil {
		return wasm.HTTPResponse{}, err
	}
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" { // its own line says why
		return wasm.HTTPResponse{}, palyra.Errorf(palyra.Denied, o.ReasonCode, "%s", o.Reason).WithRemedy("%s", o.Remedy)
	}
	var f fetched
	if err := json.Unmarshal(o.Output, &f); err != nil {
		return wasm.HTTPResponse{}, err
	}
	res := wasm.HTTPResponse{Status: f.Status, Headers: f.Headers, Body: f.BodyB64, Truncated: f.Truncated}
	if f.Body != nil {
		res.Body = []byte(*f.Body)
	}
	return res, nil
}
