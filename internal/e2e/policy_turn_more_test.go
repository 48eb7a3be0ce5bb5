//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// saysWhy reports whether a change that nobody tried says why not.
func saysWhy(text string) bool { return strings.Contains(text, "; not tried: ") }

var byPeople = []refusal{
	{
		name: "nobody waited", known: true, layer: palyra.LayerApproval, reason: palyra.ReasonApprovalNotAwaited, flip: "answer",
		call: func(d *daemon) client.CallRequest {
			r := write(d.work, "a.txt", "x")
			r.NoWait = true
			return r
		},
	},
	{
		name: "nobody answered", env: []string{"PALYRA_APPROVALS_WAIT_MS=1500"}, known: true, call: writes, provoke: unanswered,
		layer: palyra.LayerApproval, reason: palyra.ReasonApprovalExpired, flip: "answer",
	},
	{
		name: "nobody answered in time", env: []string{"PALYRA_APPROVALS_WAIT_MS=1500"}, known: true, call: writes, provoke: unanswered,
		layer: palyra.LayerApproval, reason: palyra.ReasonApprovalExpired, flip: "limit", open: true,
	},
	{
		name: "a no", known: true, call: writes, provoke: denied,
		layer: palyra.LayerApproval, reason: palyra.ReasonApprovalDenied, flip: "policy",
	},
	{
		name: "a no a while ago", known: true, call: writes, provoke: deniedTwice,
		layer: palyra.LayerApproval, reason: palyra.ReasonRecentlyDenied, flip: "policy",
	},
	{
		name: "a no that is over", env: []string{"PALYRA_APPROVALS_DENY_HOLD_MS=3000"}, known: true, call: writes, provoke: deniedTwice,
		again: held,
		layer: palyra.LayerApproval, reason: palyra.ReasonRecentlyDenied, flip: "answer",
	},
	{
		name: "too many questions", env: []string{"PALYRA_APPROVALS_MAX_PENDING=1"}, known: true, call: writes, provoke: oneOpen,
		layer: palyra.LayerApproval, reason: palyra.ReasonTooManyPending, flip: "limit",
	},
	{
		name: "questions that keep too much", env: []string{"PALYRA_APPROVALS_DAILY_BYTES=1048576"}, known: true, call: writesMuch,
		layer: palyra.LayerApproval, reason: palyra.ReasonQuestionBytes, flip: "limit", open: true,
	},
	{
		name: "a question that was withdrawn", known: true, call: writes, provoke: sessionClosed,
		layer: palyra.LayerApproval, reason: palyra.ReasonApprovalFailed, flip: "answer",
	},
}

var byGrant = []refusal{
	{
		name: "a grant that another call spent", env: unlimited, provoke: spent, layer: palyra.LayerGrant, reason: palyra.ReasonGrantSpent,
		flip: "answer",
		call: func(d *daemon) client.CallRequest { return d.program("/bin/true", "spent") },
	},
	{
		name: "a grant that was taken back", provoke: revoked, call: lasts,
		layer: palyra.LayerTier, reason: palyra.ReasonGrantRevoked, flip: "answer",
	},
	{
		name: "a session that was closed", provoke: closedMeanwhile, call: lasts,
		layer: palyra.LayerTier, reason: palyra.ReasonGrantRevoked, flip: "answer",
	},
	{
		name: "a plan that changed", provoke: changedPlan, layer: palyra.LayerTier, reason: palyra.ReasonPlanChanged, flip: "answer",
		call: func(d *daemon) client.CallRequest {
			d.put("operand.sh", "echo one\n")
			return d.program("/bin/sh", "operand.sh")
		},
	},
	{
		name: "a daemon that died", provoke: interrupted((*daemon).kill), call: lasts,
		layer: palyra.LayerJournal, reason: palyra.ReasonInterrupted, flip: "answer",
	},
	{
		name: "a daemon that was stopped", provoke: interrupted((*daemon).stop), call: lasts,
		layer: palyra.LayerTier, reason: palyra.ReasonStopping, flip: "answer",
	},
	{
		name: "a caller that gave up", provoke: givenUp, call: lasts,
		layer: palyra.LayerTier, reason: palyra.ReasonCancelled, flip: "answer",
	},
}

var byEgress = []refusal{
	{
		name: "a host in tier b", known: true, call: shellIn("b", map[string]any{"egress": []string{"example.org:443"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "host",
	},
	{
		name: "a host that is not allowed", env: []string{"PALYRA_EGRESS_ALLOWED_HOSTS=example.org:443"}, known: true,
		call:  shellIn("c", map[string]any{"egress": []string{"example.com:443"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "config",
	},
	{
		name: "this machine by name", known: true, call: shellIn("c", map[string]any{"egress": []string{"localhost:1"}}, "true"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "config",
	},
	{
		name: "an address to fetch that is not allowed", env: []string{"PALYRA_EGRESS_ALLOWED_HOSTS=example.org:443"}, call: fetches("/"),
		layer: palyra.LayerPlan, reason: palyra.ReasonEgressDenied, flip: "config",
	},
	{
		name: "a redirect", call: fetches("/elsewhere"),
		layer: palyra.LayerTier, reason: palyra.ReasonEgressDenied, flip: "host",
	},
}

var byOthers = []refusal{
	{
		name: "a sealed path", provoke: (*daemon).willing, layer: palyra.LayerTier, reason: palyra.ReasonSealDenied, flip: "arguments",
		open: true,
		call: func(d *daemon) client.CallRequest {
			d.project()
			return processRun(d.work, map[string]any{"script": "git config user.name x", "tier": "c", "live": true})
		},
	},
	{
		name: "a tool that nobody looked at", layer: palyra.LayerCatalog, reason: palyra.ReasonUnknownTool, flip: "access", open: true,
		call: func(d *daemon) client.CallRequest {
			d.mcpServer("small", false)
			return mcpCall("mcp.small.add", map[string]any{"a": 2, "b": 40})
		},
	},
	{
		name: "a tool that has changed", provoke: changedTool, layer: palyra.LayerTier, reason: palyra.ReasonQuarantined, flip: "access",
		open: true,
		call: func(d *daemon) client.CallRequest {
			d.mcpServer("small", true)
			return mcpCall("mcp.small.add", map[string]any{"a": 2, "b": 40})
		},
	},
}

// inARun has a run make the call twice, and returns how the second one ended.
func inARun(d *daemon, r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	step := fmt.Sprintf(`{calls: [{tool: %s, with: %s}]}`, r.Tool, r.Arguments)
	run := d.startRun("turns: [" + step + ", " + step + "]")
	if _, err := attach(d.t.Context(), d.client(client.AgentDoor), run.ID, 0); err != nil {
		d.t.Fatal(err)
	}
	page, err := d.client(client.OperatorDoor).Calls(d.t.Context(), client.CallFilter{Limit: 1})
	if err != nil || len(page.Calls) != 1 || page.Calls[0].Outcome == nil {
		d.t.Fatalf("%+v, %v", page, err)
	}
	return *page.Calls[0].Outcome
}

// boundElsewhere proposes a call by the agent of a person who is bound to another
// workspace. The agent stays who calls.
func boundElsewhere(d *daemon, r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	ctx, person := d.t.Context(), d.client(client.OperatorDoor)
	other := filepath.Join(filepath.Dir(d.work), "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		d.t.Fatal(err)
	}
	if _, err := person.AddWorkspace(ctx, other, ""); err != nil {
		d.t.Fatal(err)
	}
	if _, err := person.AddUser(ctx, palyra.User{Principal: "user:bob", Role: palyra.RoleOperator, Workspaces: []string{other}}); err != nil {
		d.t.Fatal(err)
	}
	_, token, err := person.AddAgent(ctx, "worker", "user:bob")
	if err != nil {
		d.t.Fatal(err)
	}
	d.as = d.bearer(client.AgentDoor, token)
	return d.willing(r)
}

// asks proposes a call with nobody there, or somebody who does one thing.
func asks(d *daemon, r client.CallRequest, do func(*client.Client, palyra.Approval)) palyra.Outcome {
	d.t.Helper()
	person := d.client(client.OperatorDoor)
	a, _, ch, err := question(d.t.Context(), d.client(client.AgentDoor), person, r)
	if err != nil {
		d.t.Fatal(err)
	}
	do(person, a)
	end := <-ch
	if end.err != nil {
		d.t.Fatal(end.err)
	}
	return end.out
}

func unanswered(d *daemon, r client.CallRequest) palyra.Outcome {
	return asks(d, r, func(*client.Client, palyra.Approval) {})
}

func denied(d *daemon, r client.CallRequest) palyra.Outcome {
	return asks(d, r, func(person *client.Client, a palyra.Approval) {
		if _, err := person.Decide(d.t.Context(), client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}); err != nil {
			d.t.Error(err)
		}
	})
}

func deniedTwice(d *daemon, r client.CallRequest) palyra.Outcome {
	denied(d, r)
	return d.willing(r)
}

// held proposes until the denied plan may be asked for again.
func held(d *daemon, r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	for end := time.Now().Add(waitMost); ; <-time.After(100 * time.Millisecond) {
		out := d.willing(r)
		if out.ReasonCode != palyra.ReasonRecentlyDenied || time.Now().After(end) {
			return out
		}
	}
}

// oneOpen proposes a call while another one's question is open.
func oneOpen(d *daemon, r client.CallRequest) palyra.Outcome {
	d.t.Helper()
	other := write(d.work, "other.txt", "x")
	other.NoWait = true
	if out, err := d.client(client.AgentDoor).Call(d.t.Context(), other, nil); err != nil || out.ApprovalID == "" {
		d.t.Fatalf("%+v, %v", out, err)
	}
	r.NoWait = true
	out, err := d.client(client.AgentDoor).Call(d.t.Context(), r, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func sessionClosed(d *daemon, r client.CallRequest) palyra.Outcome {
	return asks(d, r, func(person *client.Client, a palyra.Approval) {
		if err := person.CloseSession(d.t.Context(), a.Session); err != nil {
			d.t.Error(err)
		}
	})
}

// lasts is a program that stays the first time, and ends the second.
func lasts(d *daemon) client.CallRequest {
	return d.seenShell("test -e started || { echo x > started; exec sleep 60; }")
}

// underWay starts a call, and returns what became of it after do.
func underWay(d *daemon, r client.CallRequest, do func(*client.Client, palyra.Approval)) palyra.Outcome {
	return asks(d, r, func(person *client.Client, a palyra.Approval) {
		a, err := person.Decide(d.t.Context(), allow(a, palyra.ScopeSession, 0))
		if err != nil {
			d.t.Fatal(err)
		}
		d.started("started", 1)
		do(person, a)
	})
}

func revoked(d *daemon, r client.CallRequest) palyra.Outcome {
	return underWay(d, r, func(person *client.Client, a palyra.Approval) {
		if _, err := person.RevokeLease(d.t.Context(), a.Decision.Lease); err != nil {
			d.t.Error(err)
		}
	})
}

func closedMeanwhile(d *daemon, r client.CallRequest) palyra.Outcome {
	return underWay(d, r, func(person *client.Client, a palyra.Approval) {
		if err := person.CloseSession(d.t.Context(), a.Session); err != nil {
			d.t.Error(err)
		}
	})
}

// interrupted ends the daemon while the call runs, and starts another.
func interrupted(end func(*daemon)) func(*daemon, client.CallRequest) palyra.Outcome {
	return func(d *daemon, r client.CallRequest) palyra.Outcome {
		d.t.Helper()
		person := d.client(client.OperatorDoor)
		a, id, ch, err := question(d.t.Context(), d.client(client.AgentDoor), person, r)
		if err != nil {
			d.t.Fatal(err)
		}
		if _, err := person.Decide(d.t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			d.t.Fatal(err)
		}
		d.started("started", 1)
		end(d)
		<-ch
		d.mustStart(d.env...)
		c, err := d.client(client.OperatorDoor).GetCall(d.t.Context(), id)
		if err != nil || c.Outcome == nil {
			d.t.Fatalf("%+v, %v", c, err)
		}
		return *c.Outcome
	}
}

// givenUp cancels the call while it runs.
func givenUp(d *daemon, r client.CallRequest) palyra.Outcome {
	return underWay(d, r, func(_ *client.Client, a palyra.Approval) {
		if err := d.client(client.AgentDoor).CancelCall(d.t.Context(), a.Call); err != nil {
			d.t.Error(err)
		}
	})
}

// spent has a call lose its grant to another: several are proposed at once for one
// use that is left, until that happens.
func spent(d *daemon, _ client.CallRequest) palyra.Outcome {
	d.t.Helper()
	agent := d.client(client.AgentDoor)
	for round := range 60 {
		r := d.program("/bin/true", "spent", fmt.Sprint(round))
		asks(d, r, func(person *client.Client, a palyra.Approval) {
			yes := allow(a, palyra.ScopeSession, 0)
			yes.Uses = 2 // the call that asked, and one more
			if _, err := person.Decide(d.t.Context(), yes); err != nil {
				d.t.Fatal(err)
			}
		})
		r.NoWait = true
		var all []<-chan answer
		for range 8 {
			all = append(all, propose(d.t.Context(), agent, r))
		}
		for _, ch := range all {
			if end := <-ch; end.out.Layer == palyra.LayerGrant {
				return end.out
			}
		}
	}
	d.t.Fatal("no call lost its grant to another")
	return palyra.Outcome{}
}

func changedPlan(d *daemon, r client.CallRequest) palyra.Outcome {
	return asks(d, r, func(person *client.Client, a palyra.Approval) {
		d.put("operand.sh", "echo two\n")
		if _, err := person.Decide(d.t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
			d.t.Error(err)
		}
	})
}

// changedTool has a server come back with another tool under the same name.
func changedTool(d *daemon, r client.CallRequest) palyra.Outcome {
	d.put("description", "Adds two numbers, and more.")
	d.willing(mcpCall("mcp.small.crash", map[string]any{}))
	return d.willing(r)
}

// fetches asks a server of this test for a path. One of them leads to another.
func fetches(path string) func(*daemon) client.CallRequest {
	return func(d *daemon) client.CallRequest {
		serve := func(h http.HandlerFunc) string {
			srv := httptest.NewServer(h)
			d.t.Cleanup(srv.Close)
			return srv.URL
		}
		other := serve(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
		url := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				http.Redirect(w, r, other, http.StatusFound)
			}
		})
		raw, _ := json.Marshal(map[string]string{"url": url + path})
		return client.CallRequest{Tool: "palyra.http.fetch", Arguments: raw, Surface: palyra.SurfaceCLI}
	}
}

// A host that a run was refused is explained though the run ended by itself: one
// that its plan does not name, and one that leads to where none may.
func TestWhyOfARefusedHost(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		args func(at string) map[string]any
		flip string
	}{
		"not named": {[]string{"PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8"}, func(string) map[string]any { return nil }, "host"},
		"private":   {nil, func(at string) map[string]any { return map[string]any{"egress": []string{at}} }, "config"},
	} {
		t.Run(name, func(t *testing.T) {
			d, world := newDaemon(t), newWorld(t)
			d.ownWork()
			d.mustStart(append(c.env, "PALYRA_EGRESS_RESOLVER="+world.dns, "PALYRA_EGRESS_ASK=off")...)
			at := world.web
			// words that name a host put it into the plan
			r := d.inRoom(c.args(at), "/bin/sh", "-c", "at=http://"+at+"/; curl -sS --max-time 20 $at")
			out := d.willing(r)
			if out.Outcome != palyra.OutcomeFinished || strings.Contains(out.Stdout, "hello") {
				t.Fatalf("%+v", out)
			}
			w := d.why(string(out.CallID))
			if w.Layer != palyra.LayerEgress || w.ReasonCode != palyra.ReasonEgressDenied || !strings.Contains(w.Remedy, at) ||
				len(w.Flips) == 0 || w.Flips[0].Kind != c.flip || w.Flips[0].Verified == saysWhy(w.Flips[0].Text) {
				t.Fatalf("%+v", w)
			}
			if out := d.willing(d.obey(w.Flips[0], r)); !strings.Contains(out.Stdout, "hello from "+at) {
				t.Errorf("%+v", out)
			}
		})
	}
}
