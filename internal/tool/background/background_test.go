package background

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

// one is a session "S" with a process "A" that runs and one "B" that has ended, and a call "C" that is none.
type one struct{ stopped *palyra.CallID }

func (one) OfSession(s palyra.SessionID) []*palyra.Call {
	if s != "S" {
		return nil
	}
	return []*palyra.Call{{ID: "A", Plan: palyra.Plan{Argv: []string{"serve"}, Publish: []string{"8080:80"}}}}
}

func (one) Printed(id palyra.CallID, from int64, limit int) (palyra.Chunk, int64, bool) {
	return palyra.Chunk{Offset: max(from, 5), Data: []byte("ready\n")[:min(limit, 6)]}, 11, id == "A"
}

func (one) Get(_ context.Context, id palyra.CallID) (*palyra.Call, error) {
	c := &palyra.Call{ID: id, State: palyra.Running}
	c.Proposal.Tool, c.Proposal.Session = palyra.ToolProcessStart, "S"
	switch id {
	case "A":
	case "B":
		c.State, c.Outcome = palyra.Finished, &palyra.Outcome{Outcome: palyra.OutcomeFinished, ExitCode: 3, Stdout: "out", Stderr: "err"}
	case "C":
		c.Proposal.Tool = palyra.ToolProcessRun
	default:
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "none")
	}
	return c, nil
}

func (o one) Cancel(_ context.Context, id palyra.CallID) error {
	*o.stopped = id
	return nil
}

func run(t *testing.T, i int, session palyra.SessionID, args string) (string, palyra.CallID, error) {
	t.Helper()
	var stopped palyra.CallID
	x := All(func() Processes { return one{&stopped} })[i]
	p := palyra.Plan{Tool: x.Spec().Name, Arguments: json.RawMessage(args)}
	if err := x.Plan(t.Context(), tool.Env{}, &p); err != nil {
		return "", "", err
	}
	out, err := x.Run(t.Context(), tool.Env{Session: session}, p)
	return string(out), stopped, err
}

// A session sees its own processes, reads what they print and stops them.
func TestTools(t *testing.T) {
	for _, c := range []struct {
		tool int
		args string
		want string
	}{
		{0, `{}`, `"process_id":"A","command":["serve"]`},
		{1, `{"process_id":"A","offset":2}`, `"state":"running","content":"ready\n","offset":5,"next_offset":11,"size":11,"skipped":3}`},
		{1, `{"process_id":"B"}`, `"state":"finished","content":"outerr","offset":0,"next_offset":6,"size":6,"exit_code":3}`},
		{1, `{"process_id":"B","offset":99}`, `"content":"","offset":6,"next_offset":6`},
		{1, `{"process_id":"B","limit":2}`, `"content":"rr","offset":4`},
		{2, `{"process_id":"A"}`, `"process_id":"A"`},
	} {
		got, stopped, err := run(t, c.tool, "S", c.args)
		if err != nil || !strings.Contains(got, c.want) || (c.tool == 2) != (stopped == "A") {
			t.Errorf("%s: %s, %v", c.args, got, err)
		}
	}
}

// Processes of other sessions, and calls that are none, do not exist; bad arguments are refused.
func TestToolsRefuse(t *testing.T) {
	if got, _, err := run(t, 0, "T", `{}`); err != nil || got != `{"processes":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, i := range []int{1, 2} {
		all := map[string]palyra.SessionID{`{"process_id":"A"}`: "T", `{"process_id":"C"}`: "S", `{"process_id":"D"}`: "S"}
		for args, session := range all {
			if _, stopped, err := run(t, i, session, args); palyra.CodeOf(err) != palyra.NotFound || stopped != "" {
				t.Errorf("%s of %s: %v", args, session, err)
			}
		}
	}
	bad := []string{`{"process_id":"A","offset":-1}`, `{"process_id":"A","limit":-1}`, `{"process_id":"A","limit":65537}`, `{"x":1}`}
	for _, args := range bad {
		if _, _, err := run(t, 1, "S", args); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, x := range All(nil) {
		if s := x.Spec(); !s.ReadOnly || s.Workspace || !json.Valid(s.InputSchema) || s.MaxInput > 4<<10 {
			t.Errorf("%+v", s)
		}
	}
}
