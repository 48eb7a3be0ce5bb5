//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/pack"
)

// Get, Exec and OnDone are what reading texts needs that are packed against others.
func (c *copied) Get(query string, args []any, dest ...any) error {
	return c.db.QueryRow(query, args...).Scan(dest...)
}

func (c *copied) Exec(string, ...any) (int64, error) { return 0, errors.ErrUnsupported }

func (c *copied) OnDone(func(bool)) {}

// rewritten is a text of a call's row with members changed.
func (c *copied) rewritten(packed []byte, change func(map[string]any)) []byte {
	t := c.t
	t.Helper()
	text, err := pack.NewShelf("call_bases").Text(c, packed)
	if err != nil {
		t.Fatal(err)
	}
	v := map[string]any{}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	change(v)
	if text, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return pack.Pack(text)
}

// set returns a change of one member, by its path.
func set(value any, path ...string) func(map[string]any) {
	return func(v map[string]any) {
		for _, name := range path[:len(path)-1] {
			v, _ = v[name].(map[string]any)
		}
		v[path[len(path)-1]] = value
	}
}

// forged makes the outcome that of a call that ran.
func forged(v map[string]any) {
	v["outcome"], v["exit_code"], v["stdout"] = "finished", 0, "FORGED OUTPUT"
}

func withKey(key string) client.CallRequest {
	r := echo("hello")
	r.Key = key
	return r
}

// repeated: who repeats a call by its key is given what the journal says that it said,
// or is refused; never told to use another key, which would run it again.
func (d *daemon) repeated(keyed map[string]palyra.Outcome) {
	t := d.t
	t.Helper()
	agent := d.client(client.AgentDoor)
	for key, was := range keyed {
		out, err := agent.Call(t.Context(), withKey(key), nil)
		follow := func() error { _, err := agent.WatchCall(t.Context(), was.CallID, nil); return err }
		if key == "left" {
			if err != nil || out.CallID != was.CallID || string(out.Output) != string(was.Output) || follow() != nil {
				t.Errorf("one that nobody changed: %+v, %v", out, err)
			}
			continue
		}
		for _, err := range []error{err, follow()} {
			if e := palyra.AsError(err); e == nil || e.Reason != palyra.ReasonVerifyFailed || !strings.Contains(e.Remedy, "palyra journal verify") {
				t.Errorf("%s: %+v, %v", key, out, err)
			}
		}
	}
}

// What is kept of a call is what the journal says, whatever became of the call:
// somebody who rewrites a document or an outcome beside the daemon is noticed by
// those who verify and by those who look at the call.
func TestRecordsOfCallsAreHeldByTheJournal(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if _, err := person.AddWorkspace(t.Context(), d.work, "w"); err != nil {
		t.Fatal(err)
	}
	large := d.answered(write(d.work, "large.txt", strings.Repeat("x", 80<<10)), palyra.AnswerAllow, palyra.ScopeOnce)
	ran, refused := d.atOnce(echo("hello")), d.answered(write(d.work, "b.txt", "x"), palyra.AnswerDeny, "")
	if err := cancelled(t.Context(), agent, person, write(d.work, "c.txt", "x")); err != nil {
		t.Fatal(err)
	}
	checked, err := agent.Check(t.Context(), echo("may I"), nil)
	if err != nil || checked.Outcome != palyra.OutcomeAllowed {
		t.Fatal(checked, err)
	}
	keyed := map[string]palyra.Outcome{}
	for _, key := range []string{"said", "sent", "left"} {
		keyed[key] = d.atOnce(withKey(key))
	}
	c := d.copied()
	if err := c.verify(); err != nil {
		t.Fatalf("as it was left: %v", err)
	}
	given := palyra.CallID(c.list(`SELECT id FROM calls WHERE state='cancelled'`)[0])
	type change struct {
		name, column string
		call         palyra.CallID
		change       func(map[string]any)
	}
	last := []change{
		{"the plan of a large call", "doc", large.CallID, set([]string{"FORGED"}, "plan", "writes")},
		{"a plan without arguments", "doc", ran.CallID, func(v map[string]any) {
			set(nil, "plan", "arguments")(v)
			set([]string{"FORGED"}, "plan", "argv")(v)
		}},
		{"proposed arguments", "doc", ran.CallID, set(map[string]any{"text": "FORGED"}, "proposal", "arguments")},
		{"who decided", "doc", large.CallID, set("user:forged", "decision", "by")},
		{"the reason of a refusal", "outcome", refused.CallID, set("FORGED", "reason")},
		{"a refused call that ran", "outcome", refused.CallID, forged},
		{"a cancelled call that ran", "outcome", given, forged},
		{"a cancelled call that said something", "outcome", given, set("FORGED", "stdout")},
		{"a checked call that ran", "outcome", checked.CallID, forged},
	}
	for _, x := range last {
		var was []byte
		if err := c.db.QueryRow("SELECT "+x.column+" FROM calls WHERE id=?", string(x.call)).Scan(&was); err != nil {
			t.Fatal(err)
		}
		c.exec("UPDATE calls SET "+x.column+"=? WHERE id=?", c.rewritten(was, x.change), string(x.call))
		if err := c.verify(); palyra.AsError(err) == nil || palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("%s: %v", x.name, err)
		}
		c.exec("UPDATE calls SET "+x.column+"=? WHERE id=?", was, string(x.call))
	}
	if err := c.verify(); err != nil {
		t.Fatalf("as it was left, again: %v", err)
	}
	var was []byte
	if err := c.db.QueryRow("SELECT outcome FROM calls WHERE id=?", string(refused.CallID)).Scan(&was); err != nil {
		t.Fatal(err)
	}
	home := c.opened(filepath.Join(d.home, "state.db"))
	if _, err := home.Exec("UPDATE calls SET outcome=? WHERE id=?", c.rewritten(was, forged), string(refused.CallID)); err != nil {
		t.Fatal(err)
	}
	if err := c.db.QueryRow("SELECT outcome FROM calls WHERE id=?", string(keyed["said"].CallID)).Scan(&was); err != nil {
		t.Fatal(err)
	}
	body, err := pack.NewShelf("call_bases").Text(c, was)
	_, err2 := home.Exec("UPDATE calls SET outcome=? WHERE id=?", pack.Pack(bytes.Replace(body, []byte("hello"), []byte("FORGED"), 1)),
		string(keyed["said"].CallID))
	_, err3 := home.Exec("UPDATE calls SET input=? WHERE id=?", string(palyra.SumBytes(nil)), string(keyed["sent"].CallID))
	if err := errors.Join(err, err2, err3, home.Close()); err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	d.repeated(keyed)
	agent, person = d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if got, err := agent.GetCall(t.Context(), refused.CallID); palyra.AsError(err) == nil ||
		palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("a forged call is shown: %+v, %v", got, err)
	}
	if _, err := agent.GetCall(t.Context(), ran.CallID); err != nil {
		t.Errorf("another call: %v", err)
	}
	if r, err := person.VerifyJournal(t.Context(), nil); err != nil || r.OK || len(r.Problems) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
