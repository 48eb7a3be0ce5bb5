package entity

import (
	"fmt"
	"testing"

	"github.com/cedar-policy/cedar-go"

	"palyra"
)

// Whoever differs in one word only is not taken for the other one.
func TestMemoryComparesEveryWord(t *testing.T) {
	m, user := &Memory{}, cedar.NewEntityUID("User", "u")
	team := []cedar.EntityUID{cedar.NewEntityUID("Team", "web")}
	agent := Membership{UID: cedar.NewEntityUID("Agent", "a")}
	for range 2 {
		for _, c := range []struct {
			who, owner Membership
			parents    int
			all        int
		}{
			{Membership{UID: user}, Membership{}, 0, 1},
			{Membership{UID: user, Roles: []palyra.Role{palyra.RoleOwner}}, Membership{}, 1, 1},
			{Membership{UID: user, Roles: []palyra.Role{palyra.RoleOwner}, More: team}, Membership{}, 2, 1},
			{agent, Membership{UID: user}, 1, 1},
			{agent, Membership{UID: user, More: team}, 1, 2},
		} {
			got := m.Caller(c.who, c.owner).Entities
			if len(got) != c.all || got[0].Parents.Len() != c.parents {
				t.Errorf("%+v of %+v: %v", c.who, c.owner, got)
			}
		}
		for i, w := range []ToolWords{
			{Name: "x"},
			{Name: "x", Source: palyra.SourceMCP},
			{Name: "x", Allowed: true},
			{Name: "x", Sensitive: true},
			{Name: "x", ReadOnly: true},
			{Name: "x", Capabilities: []palyra.Capability{palyra.Network}},
		} {
			if got, want := m.Tool(w), newTool(w); !got.Entity.Equal(want.Entity) || !got.Capabilities.Equal(want.Capabilities) {
				t.Errorf("%d: %v, not %v", i, got.Entity, want.Entity)
			}
		}
		for _, labels := range [][]string{{"a b"}, {"a", "b"}, {"b", "a"}, nil, {""}} {
			if got := m.Labels(labels).Set; !got.Equal(Set(labels)) {
				t.Errorf("%q: %v", labels, got)
			}
		}
	}
}

// What somebody does with a list afterwards does not change what is remembered.
func TestMemoryKeepsItsOwn(t *testing.T) {
	m, caps := &Memory{}, []palyra.Capability{palyra.Network}
	m.Tool(ToolWords{Name: "x", Capabilities: caps})
	caps[0] = palyra.ProcessExec
	if got := m.Tool(ToolWords{Name: "x", Capabilities: caps}).Capabilities; !got.Contains(cedar.String(palyra.ProcessExec)) {
		t.Error(got)
	}
}

// Names that nobody asked for before do not fill the memory.
func TestMemoryIsBounded(t *testing.T) {
	m := &Memory{}
	for i := range 3 * most {
		m.Tool(ToolWords{Name: palyra.ToolName(fmt.Sprint(i))})
	}
	if n := len(m.tools.of); n > most {
		t.Errorf("%d tools are remembered", n)
	}
}

// A command or a program that differs in one word only is not taken for the other one.
func TestMemoryTellsCommandsApart(t *testing.T) {
	m := &Memory{}
	base := palyra.Command{Class: palyra.CommandWrite, Understood: true, Programs: []string{"a"}}
	change := func(f func(*palyra.Command)) palyra.Command {
		c := base
		f(&c)
		return c
	}
	for range 2 {
		for i, c := range []palyra.Command{
			base,
			change(func(c *palyra.Command) { c.Class = palyra.CommandReadOnly }),
			change(func(c *palyra.Command) { c.Understood = false }),
			change(func(c *palyra.Command) { c.Shell = true }),
			change(func(c *palyra.Command) { c.RunsCode = true }),
			change(func(c *palyra.Command) { c.Loopback = true }),
			change(func(c *palyra.Command) { c.Programs = []string{"b"} }),
			change(func(c *palyra.Command) { c.Programs = []string{"a", "b"} }),
			change(func(c *palyra.Command) { c.Outside = []string{"/x"} }),
			{Class: palyra.CommandUnknown},
		} {
			if got, want := m.Command(&c), newCommandRecord(c); !got.Equal(want) {
				t.Errorf("%d: %v, not %v", i, got, want)
			}
		}
		for i, e := range []palyra.Executable{{Path: "/a"}, {Path: "/b"}, {Path: "/a", Digest: "d"}, {Path: "/a", Digest: "d", Sealed: true}} {
			if got, want := m.Executable(e), Executable(e); !got.Equal(want) {
				t.Errorf("%d: %v, not %v", i, got, want)
			}
		}
		if m.Executable(palyra.Executable{}) != nil {
			t.Error("no program is one")
		}
	}
}
