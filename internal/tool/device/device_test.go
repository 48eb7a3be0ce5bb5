package device

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/tool"
)

func name(k ed25519.PublicKey) string { return "op-" + base64.RawURLEncoding.EncodeToString(k)[:8] }

func good() Pairing {
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	return Pairing{
		Pairing: "P1", Name: "laptop", PublicKey: base64.StdEncoding.EncodeToString(key), KeyID: name(key), Print: "AAAA BBBB",
		Address: "192.0.2.7:4711", Principal: "user:alice", Role: palyra.RoleApprover, By: "user:alice",
	}
}

func plan(t *testing.T, a Pairing) palyra.Plan {
	t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return palyra.Plan{Tool: PairName, Arguments: raw}
}

var daemon = tool.Env{Call: "C1", Purpose: "pairing"}

// What a person is asked names who, what and from where.
func TestPlanShowsTheDevice(t *testing.T) {
	p := plan(t, good())
	if err := (pair{Config{KeyID: name}}).Plan(t.Context(), daemon, &p); err != nil {
		t.Fatal(err)
	}
	text := p.Detail.Summary + "\n" + strings.Join(p.Detail.Notes, "\n")
	for _, want := range []string{"laptop", "192.0.2.7:4711", "AAAA BBBB", "user:alice", "approver"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// An agent, also one inside a sandbox whose calls have a parent, cannot propose it.
func TestOnlyTheDaemonProposesIt(t *testing.T) {
	for _, env := range []tool.Env{{}, {Parent: "C9"}, {Parent: "C9", Purpose: "x"}} {
		p := plan(t, good())
		if err := (pair{Config{KeyID: name}}).Plan(t.Context(), env, &p); palyra.AsError(err).Reason != palyra.ReasonPermission {
			t.Errorf("%+v: %v", env, err)
		}
	}
}

func TestBadPairings(t *testing.T) {
	for what, change := range map[string]func(*Pairing){
		"other key id":     func(a *Pairing) { a.KeyID = "op-other" },
		"short key":        func(a *Pairing) { a.PublicKey = base64.StdEncoding.EncodeToString(make([]byte, 31)) },
		"not base64":       func(a *Pairing) { a.PublicKey = strings.Repeat("?", 44) },
		"an agent's":       func(a *Pairing) { a.Principal = "agent:x" },
		"control in name":  func(a *Pairing) { a.Name = "lap\x1b[2Jtop" },
		"hidden direction": func(a *Pairing) { a.Name = "lap\u202etop" },
		"blanks around":    func(a *Pairing) { a.Name = " laptop" },
		"line in address":  func(a *Pairing) { a.Address = "192.0.2.1\nrole owner" },
	} {
		a := good()
		change(&a)
		p := plan(t, a)
		for _, err := range []error{
			(pair{Config{KeyID: name}}).Plan(t.Context(), daemon, &p),
			func() error { _, err := (pair{Config{KeyID: name}}).Run(t.Context(), daemon, p); return err }(),
		} {
			if palyra.CodeOf(err) != palyra.Invalid {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	p := palyra.Plan{Tool: PairName, Arguments: json.RawMessage(`{"name":"x","more":1}`)}
	if _, err := (pair{Config{KeyID: name}}).Run(t.Context(), daemon, p); palyra.AsError(err).Reason != palyra.ReasonSchemaMismatch {
		t.Errorf("unknown field: %v", err)
	}
}

func TestRunRegistersExactlyThePlan(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var got Pairing
	c := Config{KeyID: name, Register: func(_ context.Context, call palyra.CallID, p Pairing) (palyra.Device, error) {
		if call != "C1" {
			t.Errorf("call %s", call)
		}
		got = p
		return palyra.Device{ID: "dev-1", Serial: "7", Certificate: "sha256:x", ExpiresAt: at}, nil
	}}
	all := All(c)
	raw, err := all[0].Run(t.Context(), daemon, plan(t, good()))
	if err != nil || got != good() {
		t.Fatalf("%+v %v", got, err)
	}
	if want := `{"device_id":"dev-1","certificate":"sha256:x","serial":"7","expires_at":"2030-01-02T03:04:05Z"}`; string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
	broken := errors.New("no")
	c.Register = func(context.Context, palyra.CallID, Pairing) (palyra.Device, error) { return palyra.Device{}, broken }
	if _, err := (pair{c}).Run(t.Context(), daemon, plan(t, good())); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := tool.NewSet(all...); err != nil {
		t.Error(err)
	}
}
