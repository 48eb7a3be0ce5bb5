package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/policy/entity"
	"palyra/internal/policy/risk"
)

// classes are the command classes that policies can compare with.
var classes = []palyra.CommandClass{
	palyra.CommandReadOnly, palyra.CommandBuild, palyra.CommandWrite, palyra.CommandDestructive, palyra.CommandUnknown,
}

// analyse says what a plan's program would do. Nothing is known without a program, without an analyser, or
// where the analyser fails. A command that was not understood to its last word is never better than unknown,
// whatever the analyser says.
func (s *state) analyse(p palyra.Plan) (c palyra.Command) {
	nothing := palyra.Command{Class: palyra.CommandUnknown}
	if s.command == nil || p.Executable.Path == "" && len(p.Argv) == 0 {
		return nothing
	}
	defer func() {
		if r := recover(); r != nil { // a defect there must not end the daemon, nor open anything
			c = nothing
		}
	}()
	c = s.command(p)
	if !slices.Contains(classes, c.Class) || !c.Understood && c.Class != palyra.CommandDestructive {
		c.Class = palyra.CommandUnknown
	}
	return c
}

// riskRecord is the findings for policies.
func riskRecord(f risk.Findings) cedar.Record {
	return cedar.NewRecord(cedar.RecordMap{
		"level": cedar.String(f.Level()), "rank": cedar.Long(f.Rank()), "factors": entity.Set(f.Names()),
	})
}
