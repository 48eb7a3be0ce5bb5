package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go"

	"palyra"
	"palyra/internal/trusted"
)

// classes are those that policies can compare with.
var classes = []palyra.CommandClass{
	palyra.CommandReadOnly, palyra.CommandBuild, palyra.CommandWrite, palyra.CommandDestructive, palyra.CommandUnknown,
}

// analyse is what a plan's program would do. Without a program, without somebody
// to tell, or where the telling fails, nothing is known. What was not understood
// to its last word is never better than unknown, whoever says so.
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

// commandRecord is a command for policies.
func commandRecord(c palyra.Command) cedar.Record {
	return cedar.NewRecord(cedar.RecordMap{
		"class": cedar.String(c.Class), "understood": cedar.Boolean(c.Understood), "shell": cedar.Boolean(c.Shell),
		"runs_code": cedar.Boolean(c.RunsCode), "programs": stringSet(c.Programs), "outside": stringSet(c.Outside),
	})
}

// command adds what the words of a command tell. A program that is understood to its
// last word, and that the full sandbox holds, is no more than what it does: it looks,
// builds, or changes files of the workspace. One that only looks is no risk by what a
// program could do.
func (f *findings) command(c palyra.Command, p palyra.Plan) {
	tame := c.Understood && p.Tier == palyra.TierC && p.Enforcement.Mode == palyra.NetworkStrict &&
		(c.Class == palyra.CommandBuild || !c.RunsCode && (c.Class == palyra.CommandReadOnly || c.Class == palyra.CommandWrite))
	for i := range f.factors {
		switch x := &f.factors[i]; {
		case !tame:
		case c.Class == palyra.CommandReadOnly && (x.name == string(palyra.ProcessExec) || x.name == string(palyra.FilesystemWrite)):
			x.rank = 0
		case x.name == string(palyra.ProcessExec):
			x.rank = 1
		}
	}
	for _, at := range c.Outside {
		f.add(1, "outside_path", at)
		if trusted.Secret(at) {
			f.add(2, "secret_place", at)
		}
	}
	if c.Class != palyra.CommandDestructive {
		return
	}
	detail := ""
	if len(c.Why) > 0 {
		detail = c.Why[0]
	}
	f.add(3, "destructive_command", detail)
}
