package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

func TestBadReportFails(t *testing.T) {
	var out bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &out}
	err := printReport(inv, client.Report{Entries: 9, Problems: []string{"entry 4: hash", "entry 5: hash"}})
	if palyra.AsError(err).Reason != palyra.ReasonVerifyFailed || !strings.Contains(err.Error(), "entry 4") ||
		!strings.Contains(out.String(), "BAD: 9 entries") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if err := printReport(inv, client.Report{}); err == nil {
		t.Error("a report that says nothing passed")
	}
}

func TestEntryLine(t *testing.T) {
	const at = "2026-11-15T12:00:00.123456789Z"
	for _, c := range []struct {
		kind string
		body map[string]any
		want string
	}{
		{"call.granted", map[string]any{"call_id": "C", "grant_id": "G", "tier": "builtin", "a": "<x>\u202e\x1b"}, "call=C"},
		{
			"call.finished",
			map[string]any{"call_id": "C", "outcome": "finished", "exit_code": json.Number("0"), "attestation_id": "A"},
			"call=C outcome=finished attestation=A",
		},
		{"call.finished", map[string]any{"call_id": "C", "outcome": "finished", "exit_code": json.Number("2")}, "call=C outcome=finished exit=2"},
		{
			"call.reverted",
			map[string]any{"call_id": "C", "by": "user:ann", "reversal": "redo", "result": "done"},
			"call=C reversal=redo result=done by=user:ann",
		},
		{
			"call.refused",
			map[string]any{"call_id": "C", "layer": "policy", "reason_code": "policy_denied"},
			"call=C layer=policy reason=policy_denied",
		},
		{
			"approval.decided",
			map[string]any{
				"approval_id": "P", "call_id": "C", "answer": "deny", "by": "user:ann", "reason": "no\x1b outcome=finished",
				"votes": []any{"sig"},
			},
			`call=C approval=P answer=deny by=user:ann because no\x1b outcome=finished`,
		},
		{
			"workspace.added",
			map[string]any{"workspace": map[string]any{"path": "/a b=c"}, "signature": map[string]any{"sig": "S"}},
			`workspace="/a b=c"`,
		},
		{
			"operator.added",
			map[string]any{"operator": map[string]any{"principal": "user:ann", "key_id": "K", "role": "owner"}},
			"operator=user:ann role=owner key=K",
		},
	} {
		want := fmt.Sprintf("    12  2026-11-15T12:00:00.123Z  %-20s  %s", c.kind, c.want)
		if got := entryLine(palyra.Entry{Seq: 12, Time: at, Kind: c.kind, Body: c.body}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if entryTime("2026-11-15T12:00:00Z") != "2026-11-15T12:00:00.000Z" || entryTime("\x1b") != `\x1b` {
		t.Error("entryTime")
	}
}

// Every kind of entry has something to say on its line.
func TestEveryKindSaysSomething(t *testing.T) {
	for _, e := range palyra.Catalogue() {
		if e.Kind() == "daemon.stopped" || e.Kind() == "policy.activated" {
			continue // the kind says it all
		}
		v := reflect.New(reflect.TypeOf(e))
		questiontest.Poison(v.Elem())
		raw, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Fatal(err)
		}
		if line := entryLine(palyra.Entry{Kind: e.Kind(), Body: body}); !strings.Contains(line, "=") ||
			strings.Contains(strings.Replace(line, e.Kind(), "", 1), "sig") && e.Kind() != "alert.raised" {
			t.Errorf("%s: %s", e.Kind(), line)
		}
	}
}
