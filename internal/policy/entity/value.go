package entity

import (
	"path"
	"path/filepath"
	"time"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// Values of the context. A value that is nil is absent.

// Word is a text that is absent when it is empty.
func Word(s string) cedar.Value {
	if s == "" {
		return nil
	}
	return cedar.String(s)
}

// Executable is a program of a plan.
func Executable(e palyra.Executable) cedar.Value {
	if e.Path == "" {
		return nil
	}
	return cedar.NewRecord(cedar.RecordMap{
		"path": cedar.String(e.Path), "name": cedar.String(filepath.Base(e.Path)), "digest": cedar.String(e.Digest),
	})
}

// PlaceOf names a workspace.
func PlaceOf(at string) cedar.Value {
	if at == "" {
		return nil
	}
	return cedar.NewEntityUID("Workspace", cedar.String(path.Clean(at)))
}

// Moment is a time, in UTC.
func Moment(at time.Time) cedar.Value {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return cedar.NewRecord(cedar.RecordMap{
		"unix": cedar.Long(at.Unix()), "hour": cedar.Long(at.Hour()), "minute": cedar.Long(at.Minute()),
		"weekday": cedar.Long((int64(at.Weekday())+6)%7 + 1),
	})
}

// Limits is how each limit is enforced as limit=method.
func Limits(limits map[string]palyra.Hold) cedar.Set {
	list := make([]string, 0, len(limits))
	for limit, method := range limits {
		list = append(list, limit+"="+string(method))
	}
	return Set(list)
}

// Names is the set of what things are called.
func Names[T any](list []T, name func(T) string) cedar.Set {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = name(one)
	}
	return Set(names)
}

// noCommand is what policies see of a call that runs no program.
var noCommand = newCommandRecord(palyra.Command{Class: palyra.CommandUnknown})

// Command is what the words of a command tell.
func Command(c *palyra.Command) cedar.Value {
	if c.Class == palyra.CommandUnknown && !c.Understood && !c.Shell && !c.RunsCode && !c.Loopback && len(c.Programs)+len(c.Outside) == 0 {
		return noCommand
	}
	return newCommandRecord(*c)
}

// commandWords are what the record of most commands is made of: one program, which stays in the workspace.
type commandWords struct {
	class                                 palyra.CommandClass
	understood, shell, runsCode, loopback bool
	program                               string
}

// Command is what the words of a command tell.
func (m *Memory) Command(c *palyra.Command) cedar.Value {
	if m == nil || len(c.Programs) != 1 || len(c.Outside) > 0 {
		return Command(c)
	}
	return m.words.get(commandWords{c.Class, c.Understood, c.Shell, c.RunsCode, c.Loopback, c.Programs[0]}, always,
		func() cedar.Value { return Command(c) })
}

// Executable is the file that runs.
func (m *Memory) Executable(e palyra.Executable) cedar.Value {
	if m == nil {
		return Executable(e)
	}
	return m.runs.get(e, always, func() cedar.Value { return Executable(e) })
}

// always says of what is kept by all the words it was made of that it is right.
func always(cedar.Value) bool { return true }

func newCommandRecord(c palyra.Command) cedar.Value {
	return cedar.NewRecord(cedar.RecordMap{
		"class": cedar.String(c.Class), "understood": cedar.Boolean(c.Understood), "shell": cedar.Boolean(c.Shell),
		"runs_code": cedar.Boolean(c.RunsCode), "loopback": cedar.Boolean(c.Loopback),
		"programs": Set(c.Programs), "outside": Set(c.Outside),
	})
}

// LastingName is the attribute of effects that cannot be undone.
const LastingName = "not_undoable"

// Effects is what a run did.
func Effects(f *palyra.EffectFacts) cedar.Value {
	if f == nil {
		return nil
	}
	return cedar.NewRecord(cedar.RecordMap{
		"created": cedar.Long(f.Created), "changed": cedar.Long(f.Changed), "removed": cedar.Long(f.Removed),
		"mode": cedar.Long(f.Mode), "link": cedar.Long(f.Link), "total": cedar.Long(f.Created + f.Changed + f.Removed + f.Mode + f.Link),
		"removed_files": cedar.Long(f.RemovedFiles), "bytes": cedar.Long(f.Bytes), "executables": cedar.Long(f.Executables),
		"never_kept": cedar.Long(f.NeverKept), "share": cedar.Long(f.Share), "omitted": cedar.Long(f.Omitted),
		LastingName: cedar.Boolean(f.NotUndoable), "pushes_out": cedar.Long(f.PushesOut),
		"trusted": Set(f.Trusted), "outward": Set(f.Outward), "run_by_tools": Set(f.RunByTools),
		"uncommitted": Set(f.Uncommitted), "rewound": Set(f.Rewound),
	})
}
