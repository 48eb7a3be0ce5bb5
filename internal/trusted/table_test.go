package trusted

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A table gives every name what its group and category say, in its order.
func TestTable(t *testing.T) {
	got, err := parse(`# of editors
[editor]

held: Zed: tasks
  documentation: https://zed.dev/docs/tasks
  .zed a/*
  b/

# of agents
[agent]

noted: agents
  looked for, not found: https://agents.md
  tried: that page: it has none
  AGENT.md

end: 4`)
	if err != nil {
		t.Fatal(err)
	}
	zed := Name{Category: Editor, Care: Held, By: "Zed: tasks", Source: "https://zed.dev/docs/tasks", Basis: Read}
	want := []Name{zed, zed, zed, {
		Name: "AGENT.md", Category: Agent, Care: Noted, By: "agents",
		Source: "https://agents.md", Basis: Sought, Tried: "that page: it has none",
	}}
	want[0].Name, want[1].Name, want[2].Name = ".zed", "a/*", "b/"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A table that says too little, or something that is not known, is no list.
func TestBadTables(t *testing.T) {
	const (
		head  = "[editor]\n\n"
		group = "held: Zed\n  documentation: https://zed.dev\n  .zed\n"
	)
	for _, c := range []struct{ table, err string }{
		{group, "below a category"},
		{"[editors]\n", "no category"},
		{"[editor\n", "no category"},
		{"[[editor]]\n", "no category"},
		{"[held]\n", "no category"},
		{head + "kept: Zed\n", "does not say"},
		{head + "held:\n", "does not say"},
		{head + "held: \n", "ends in a blank"},
		{head + "held Zed\n", "does not say"},
		{head + "Held: Zed\n", "does not say"},
		{head + "  .zed\n", "belongs to no group"},
		{head + "held: Zed\n  .zed\n", "known from"},
		{head + "held: Zed\n  hearsay: https://zed.dev\n  .zed\n", "known from"},
		{head + "held: Zed\n  documentation:\n  .zed\n", "known from"},
		{head + "held: Zed\n  looked for, not found: https://zed.dev\n  .zed\n", "what was tried"},
		{head + "held: Zed\n  looked for, not found: https://zed.dev\n  tried:\n  .zed\n", "what was tried"},
		{head + "held: Zed\n  documentation: https://zed.dev\n  tried: that page\n  .zed\n", "no name"},
		{head + "held: Zed\n", "has no names"},
		{head + "held: Zed\n  documentation: https://zed.dev\n", "has no names"},
		{head + "held: Zed\n  documentation: https://zed.dev\n\n  .zed\n", "has no names"},
		{head + "held: Zed\n  documentation: https://zed.dev\n  .zed  .zed2\n", "no name"},
		{head + "held: Zed\n  documentation: https://zed.dev\n   .zed\n", "no name"},
		{head + "held: Zed\n  documentation: https://zed.dev\n  .zed\t.x\n", "no name"},
		{head + "held: Zed\n  documentation: https://zed.dev\n  .zed \n", "ends in a blank"},
		{head + "held: Zed\r\n", "has no names"},
		{head + "held: Zed\n  documentation: https://zed.dev\n  /.zed\n", "no name"},
		{head + group + " .zed2\n", "has not ended"},
		{head + group + "held: another\n", "has not ended"},
		{head + group + "[agent]\n", "has not ended"},
		{head + group + "\n" + group, ".zed is there twice"},
		{"", "no end"},
		{head + group, "no end"},
		{head + group + "end: 1\n", "has not ended"},
		{head + group + "\nend: 2\n", "there are 1"},
		{head + group + "\nend: 1\n[agent]\n", "after the end"},
	} {
		if names, err := parse(c.table); err == nil || !strings.Contains(err.Error(), c.err) || names != nil {
			t.Errorf("%q: %v, %v; want an error that says %q", c.table, names, err, c.err)
		}
	}
}
