// Package wholeagent knows the agents that 'palyra agent run' can start by name, whole, inside the sandbox: where each
// program is found, which hosts are its own, which words switch off what cannot work or is not needed there, where it
// keeps its settings, and how its key is lent to it. It is data, agents.json, and the code that makes a start of it.
//
// Promises: nothing of the person's own settings, keys or environment goes in. A key goes by a binding of the vault, so
// that the agent has a placeholder and the value goes in at the guard; one that stands in the environment is refused.
// What it does not do: it starts nothing, and it does not decide whether the agent may start.
package wholeagent

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/syntax"
	"palyra/internal/profile"
	"palyra/internal/show"
)

// Setup is what is known of one agent.
type Setup struct {
	Name    string `json:"name"` // as it is typed
	Title   string `json:"title"`
	Program string `json:"program"` // as it is found in the PATH

	Version string `json:"version"` // from which this was read
	ReadOn  string `json:"read"`    // when
	Source  string `json:"source"`  // "program": the program itself was seen to do so

	Includes []string          `json:"includes"` // profiles that its room has as well
	Hosts    []Host            `json:"hosts"`    // that it always needs
	SignIn   []Host            `json:"sign_in"`  // that it needs without a key of the vault
	Silenced []Host            `json:"silenced"` // that it would reach for, if the words below did not keep it from that
	Env      map[string]string `json:"env"`
	Launch   []string          `json:"launch"` // before the program
	Args     []string          `json:"args"`   // before those of the person
	Why      []string          `json:"why"`    // of what is not plain among these
	Caches   []profile.Kept    `json:"caches"`
	Files    []profile.Small   `json:"files"`
	Keys     []Key             `json:"keys"`
	OwnModel Model             `json:"own_model"`
	Headless []string          `json:"headless"` // words with which it runs without a window
	Resume   []string          `json:"resume"`   // words that go on with its last session
}

// Host is one that an agent reaches.
type Host struct {
	At   string `json:"host"` // host:port
	What string `json:"what"`
	By   string `json:"by,omitempty"` // what silences it
}

// Key is a variable in which the program looks for a key, and how a binding lends it.
type Key struct {
	Env   string   `json:"env"`
	Kind  string   `json:"kind"`
	Place string   `json:"place"`
	Hosts []string `json:"hosts"`
	Args  []string `json:"args,omitempty"` // words by which the program takes the variable
}

// Model is how the program is led to a model server of the person's own: {{url}} is where.
type Model struct {
	Env  map[string]string `json:"env,omitempty"`
	Args []string          `json:"args,omitempty"`
}

//go:embed agents.json
var table []byte

// setups is the table. One that cannot be read is a defect that the tests find: no agent is known then.
var setups = sync.OnceValue(func() (all []Setup) {
	dec := json.NewDecoder(bytes.NewReader(table))
	dec.DisallowUnknownFields()
	_ = dec.Decode(&all)
	return all
})

// Names lists the agents, in the table's order.
func Names() (names []string) {
	for _, s := range setups() {
		names = append(names, s.Name)
	}
	return names
}

// Find returns an agent by name.
func Find(name string) (Setup, error) {
	for _, s := range setups() {
		if s.Name == name {
			return s, nil
		}
	}
	return Setup{}, exit.Usagef("%s is no agent that is known by name: %s%s. For any other command put -- before it: palyra agent run -- %s",
		show.Arg(name), strings.Join(Names(), ", "), syntax.Meant(name, Names()), show.Arg(name))
}

// IsHeadless reports whether the program runs without a window with these words.
func (s Setup) IsHeadless(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(s.Headless, a) })
}

// read says from where the table is, for people.
func (s Setup) read() string { return s.Title + " " + s.Version + ", " + s.Source + ", " + s.ReadOn }
