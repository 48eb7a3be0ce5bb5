//go:build linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// A token that is bound to one workspace, and the same agent's work in another: it
// cannot list, read, follow, cancel or feed it, nor read its artifacts by its session.
func TestABoundTokenStaysInItsWorkspace(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	b := d.neighbour()
	ctx, person := t.Context(), d.client(client.OperatorDoor)
	d.agentCalled("ci")
	scopes := []palyra.Permission{"status.view", "tools.list", "runs.start", "runs.view", "runs.cancel"}
	_, _, all := d.tokenFor(client.AgentDoor, palyra.Token{Name: "all", Principal: "agent:ci", Scopes: scopes}, time.Hour)
	_, _, other := d.tokenFor(client.AgentDoor, palyra.Token{Name: "other", Principal: "agent:ci", Scopes: scopes}, time.Hour)
	_, _, bound := d.tokenFor(client.AgentDoor, palyra.Token{
		Name: "only-a", Principal: "agent:ci", Scopes: scopes,
		Workspaces: []string{d.work},
	}, time.Hour)

	live := d.fedLive(all, processRun(b, map[string]any{
		"command": "sh", "agent_socket": true, "stdin_live": true,
		"terminal": map[string]int{"rows": 24, "cols": 80}, "tier": "c",
	}), palyra.ScopeOnce)
	read, err := all.Call(ctx, client.CallRequest{Tool: "palyra.fs.read", Arguments: json.RawMessage(`{"path":"secret.txt"}`), Workspace: b},
		nil)
	if err != nil || read.Outcome != palyra.OutcomeFinished {
		t.Fatal(read, err)
	}
	run, err := all.StartRun(ctx, client.RunRequest{Provider: "scripted", Input: "turns: [{text: done}]", Workspace: b})
	if err != nil {
		t.Fatal(err)
	}

	page, err := bound.Calls(ctx, client.CallFilter{})
	if err != nil || len(page.Calls) != 0 {
		t.Errorf("it lists %d calls: %v", len(page.Calls), err)
	}
	for name, try := range map[string]func(c *client.Client) error{
		"read":   func(c *client.Client) error { _, err := c.GetCall(ctx, read.CallID); return err },
		"follow": func(c *client.Client) error { _, err := c.WatchCall(ctx, read.CallID, nil); return err },
		"feed": func(c *client.Client) error {
			return c.SendInput(ctx, live.id, palyra.Feed{Data: []byte("id > PWNED\n")})
		},
		"cancel":     func(c *client.Client) error { return c.CancelCall(ctx, live.id) },
		"read a run": func(c *client.Client) error { _, err := c.GetRun(ctx, run.ID); return err },
		"end a run":  func(c *client.Client) error { return c.CancelRun(ctx, run.ID) },
		"join": func(c *client.Client) error {
			_, err := c.Call(ctx, client.CallRequest{
				Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":"x"}`),
				Session: string(read.SessionID),
			}, nil)
			return err
		},
	} {
		if err := try(bound); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.SendInput(ctx, live.id, palyra.Feed{Data: []byte("id > PWNED\n")}); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("another token of the agent feeds: %v", err)
	}
	if c, err := other.GetCall(ctx, read.CallID); err != nil || c.Outcome == nil ||
		!strings.Contains(string(c.Outcome.Output), "secret of B") {
		t.Errorf("another token, as far, does not see: %v", err)
	}
	if out, err := bound.Call(ctx, client.CallRequest{Tool: "palyra.fs.list", Workspace: d.work}, nil); err != nil ||
		out.Outcome != palyra.OutcomeFinished {
		t.Errorf("%+v %v", out, err)
	} else if page, err := bound.Calls(ctx, client.CallFilter{}); err != nil || len(page.Calls) != 1 || page.Calls[0].ID != out.CallID {
		t.Errorf("it does not see its own: %+v %v", page, err)
	}
	if page, err := person.Calls(ctx, client.CallFilter{}); err != nil || len(page.Calls) < 3 {
		t.Errorf("a person does not see all: %v", err)
	}
	if err := all.SendInput(ctx, live.id, palyra.Feed{Data: []byte("exit\n")}); err != nil {
		t.Error(err)
	}
	<-live.end
	d.verify()
}
