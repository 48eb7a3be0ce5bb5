package daemon

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/enrol"
	"palyra/internal/identity"
	"palyra/internal/pairing"
)

func aCandidate(t *testing.T, d *Daemon, id palyra.ID, name string) pairing.Candidate {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	owners, err := d.access.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pairing.Candidate{
		Pairing: id, Name: name, KeyID: identity.KeyID(pub), PublicKey: base64.StdEncoding.EncodeToString(pub), Address: "192.0.2.7:4000",
		Fingerprint: pairing.Fingerprint(pub), Principal: owners[0].Principal, Role: palyra.RoleApprover, By: owners[0].Principal,
	}
}

// A machine that leaves at once leaves no question behind.
func TestAQuestionEndsWithItsMachine(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	gone, leave := context.WithCancel(t.Context())
	leave()
	asked, leaveLater := context.WithCancel(t.Context())
	defer leaveLater()
	for id, ctx := range map[palyra.ID]context.Context{"P1": gone, "P2": asked} {
		if _, err := d.devices.Ask(ctx, aCandidate(t, d, id, "m-"+string(id[1:])), func(palyra.ApprovalID) { leaveLater() }); err == nil {
			t.Error("it is a device")
		}
		if n, err := d.desk.CountPending(t.Context()); err != nil || n != 0 {
			t.Errorf("%s: %d questions are open, %v", id, n, err)
		}
	}
}

// The keys that are listed are all that there were, the authority's too.
func TestRetiredAuthoritiesAreListed(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	keys := d.keys()
	old := d.devices.Authority.Key()
	next, err := keys.Rotate(t.Context(), enrol.UseCA, "user:ann")
	if err != nil {
		t.Fatal(err)
	}
	var got []palyra.Key
	for _, k := range keys.List() {
		if k.Use == enrol.UseCA {
			got = append(got, k)
		}
	}
	if len(got) != 2 || got[0].ID != old.ID || got[0].RetiredAt.IsZero() || got[1].ID != next.ID || !got[1].RetiredAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

// A state whose operators' rows are gone is not a new one.
func TestOperatorsRowsCannotGoAway(t *testing.T) {
	dir := home(t)
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`DELETE FROM access_operators`)
	_ = db.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = open(t, dir); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("%v", err)
	}
}
