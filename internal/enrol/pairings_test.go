package enrol

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra"
	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/identity"
	"palyra/internal/pairing"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
	"palyra/internal/tool/device"
	"palyra/internal/ulid"
)

// unrecorded is a journal for those who do not read it.
type unrecorded struct{}

func (unrecorded) Append(*store.Tx, palyra.Event) (palyra.Position, error) {
	return palyra.Position{Seq: 1}, nil
}

// open makes devices of a daemon with an owner.
func open(t *testing.T) *Devices {
	t.Helper()
	dir := t.TempDir()
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, access.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	people, err := access.New(access.Config{DB: db, Journal: unrecorded{}, StateID: "S1", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.Create(filepath.Join(dir, "operator.key"))
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	_, err = people.AddFirstOwner(t.Context(), palyra.Operator{
		Principal: "user:ann", KeyID: key.KeyID(), PublicKey: key.Public(), Separation: key.Separation(),
	}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Paths.Keys = filepath.Join(dir, "keys")
	if err := os.Mkdir(c.Paths.Keys, 0o700); err != nil {
		t.Fatal(err)
	}
	v, err := New(t.Context(), Config{
		Settings: c, StateID: "S1", Access: people, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Record:  func(context.Context, ...palyra.Event) error { return nil },
		Trouble: func(error) {}, NewID: func() palyra.ID { return palyra.ID(ulid.New(time.Now())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func aCandidate(t *testing.T, v *Devices, id palyra.ID, name string) pairing.Candidate {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	owners, err := v.Access.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pairing.Candidate{
		Pairing: id, Name: name, KeyID: identity.KeyID(pub), PublicKey: base64.StdEncoding.EncodeToString(pub), Address: "192.0.2.7:4000",
		Fingerprint: pairing.Fingerprint(pub), Principal: owners[0].Principal, Role: palyra.RoleApprover, By: owners[0].Principal,
	}
}

// Nobody becomes a device by a yes to a question that no machine waits for any
// more, such as one that an earlier daemon left, or for another key than that
// machine's.
func TestOnlyAWaitingMachineBecomesADevice(t *testing.T) {
	v := open(t)
	c := aCandidate(t, v, "P1", "laptop")
	p := device.Pairing{
		Pairing: c.Pairing, Name: c.Name, PublicKey: c.PublicKey, KeyID: c.KeyID, Print: c.Fingerprint, Address: c.Address,
		Principal: c.Principal, Role: c.Role, By: c.By,
	}
	refused := func(p device.Pairing) {
		t.Helper()
		if _, err := v.register(t.Context(), "C1", p); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
			t.Errorf("%v", err)
		}
	}
	refused(p)
	v.wait(c, true)
	other := p
	other.PublicKey = aCandidate(t, v, "P1", "laptop").PublicKey
	refused(other)
	if _, err := v.register(t.Context(), "C1", p); err != nil {
		t.Error(err)
	}
	v.wait(c, false)
	refused(p)
	if _, ok := v.take("C1"); !ok || len(v.issued)+len(v.waiting) != 0 {
		t.Errorf("%d issued, %d waiting", len(v.issued), len(v.waiting))
	}
	if all, err := v.Access.Devices(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
}

// Under a name that is or was a device's nobody is asked.
func TestAUsedNameIsNotAskedAbout(t *testing.T) {
	v := open(t)
	c := aCandidate(t, v, "P1", "laptop")
	v.wait(c, true)
	if _, err := v.register(t.Context(), "C1", device.Pairing{
		Pairing: c.Pairing, Name: c.Name, PublicKey: c.PublicKey, KeyID: c.KeyID, Print: c.Fingerprint, Address: c.Address,
		Principal: c.Principal, Role: c.Role, By: c.By,
	}); err != nil {
		t.Fatal(err)
	}
	_, err := v.Ask(t.Context(), aCandidate(t, v, "P2", "laptop"), func(palyra.ApprovalID) { t.Error("asked") })
	if e := palyra.AsError(err); e.Reason != palyra.ReasonExists || e.Code != palyra.Conflict {
		t.Errorf("%v", err)
	}
}
