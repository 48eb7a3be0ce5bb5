// Package agent takes the turns of runs: it asks a provider what to say and which tools to call, has the calls
// made, and shows the provider what became of them, until the provider is done.
//
// A Provider is a model (Models, on agent/openai or agent/anthropic), or a script in its place (agent/scripted).
// Consecutive calls of a turn that only read are made at once, as many as the run's budget allows; everything else
// in order, one at a time. A refused call is not the end of a run: the provider is told. An error of the provider
// is.
//
// The package judges and runs nothing: every call goes through the run to the gate. A run that is driven again
// after a restart is asked its turns anew and meets the outcomes it had, so a provider must give the same turns for
// the same transcript. A model does not: each of its turns is kept with the run before anything is done because of
// it, and only what was not kept is asked for. Those records are also the conversation of a session, which its next
// run goes on with.
//
// What a model says is data from outside: bounded, and a wish at most. What it is
// told of tools is bounded as well, and marked as untrusted.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/run"
)

// Provider decides what happens in a run.
type Provider interface {
	// Next returns the next turn. An error fails the run with its reason.
	Next(ctx context.Context, t Transcript) (Turn, error)
}

// Titled is a Provider that names its run for people.
type Titled interface {
	// Title returns one line.
	Title() string
}

// Listener is a Provider that heeds messages to its run while it goes on.
type Listener interface {
	// Listens reports whether it does.
	Listens() bool
}

// Modelled is a Provider that a model stands behind.
type Modelled interface {
	// ModelName returns its name.
	ModelName() string
}

// Turn is what a provider wants: some text to be shown, calls to be made in this order, and whether that was all.
type Turn struct {
	Text  string
	Calls []ToolCall
	Done  bool // the run ends after this turn

	said bool  // the text is on the tape
	fail error // the run ends with it after this turn
}

// ToolCall is a call to be made.
type ToolCall struct {
	Tool      palyra.ToolName
	Arguments json.RawMessage
	Workspace string // empty: the run's
	Bad       string // why it cannot be proposed at all; the provider is told
	// Check, if set, looks at the outcome. Its error fails the run before the next call is made.
	Check func(palyra.Outcome) error
}

// Open makes a provider from the input of a run. Its error names the fault of the input.
type Open func(input []byte) (Provider, error)

// Tools knows what a tool does.
type Tools interface {
	// ReadOnly reports whether the tool changes nothing. An unknown tool counts as changing something.
	ReadOnly(tool palyra.ToolName) bool
	// List returns every tool.
	List() []palyra.Tool
}

// Config wires a Loop.
type Config struct {
	Providers map[string]Open // by name: "scripted"
	Tools     Tools
}

var _ memory = (*run.Live)(nil)

// Loop drives runs.
type Loop struct{ Config }

// New returns a Loop.
func New(c Config) (*Loop, error) {
	if len(c.Providers) == 0 || c.Tools == nil {
		return nil, errors.New("agent: new: incomplete config")
	}
	return &Loop{c}, nil
}

// Accept implements run.Driver.
func (l *Loop) Accept(r palyra.Run, input []byte) (run.Accepted, error) {
	open, ok := l.Providers[r.Provider]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(l.Providers)), ", ")
		return run.Accepted{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no provider %q", palyra.Clip(r.Provider, 64)).
			WithRemedy("use one of: %s", known)
	}
	p, err := open(input)
	if err != nil {
		return run.Accepted{}, err
	}
	a := run.Accepted{Drive: func(ctx context.Context, live *run.Live) error { return l.drive(ctx, live, p) }}
	if t, ok := p.(Titled); ok {
		a.Title = t.Title()
	}
	if x, ok := p.(Modelled); ok {
		a.Model = x.ModelName()
	}
	if x, ok := p.(Listener); ok {
		a.Listens = x.Listens()
	}
	return a, nil
}
