// Package commandagent knows the agents as whom people's own commands propose calls: what a person runs by hand is not
// what programs do that call themselves agents.
package commandagent

import (
	"strings"

	"palyra"
)

// Prefix begins their names.
const Prefix = "user."

// Of is the agent of a person's own commands.
func Of(person palyra.Principal) palyra.Agent {
	return palyra.Agent{Principal: palyra.Principal("agent:" + Prefix + person.Name()), Owner: person}
}

// Is reports whether p is the agent of a person's own commands.
func Is(p palyra.Principal) bool { return p.IsAgent() && strings.HasPrefix(p.Name(), Prefix) }
