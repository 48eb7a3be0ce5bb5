package daemon

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/base64"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/identity"
	"palyra/internal/pairing"
	"palyra/internal/tool/device"
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

// Nobody becomes a device by a yes to a question that no machine waits for any
// more, such as one that an earlier daemon left, or for another key than that
// machine's.
func TestOnlyAWaitingMachineBecomesADevice(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	v, c := d.devices, aCandidate(t, d, "P1", "laptop")
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
	other.PublicKey = aCandidate(t, d, "P1", "laptop").PublicKey
	refused(other)
	if _, err := v.register(t.Context(), "C1", p); err != nil {
		t.Error(err)
	}
	v.wait(c, false)
	refused(p)
	if _, ok := v.take("C1"); !ok || len(v.issued)+len(v.waiting) != 0 {
		t.Errorf("%d issued, %d waiting", len(v.issued), len(v.waiting))
	}
	if all, err := d.access.Devices(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
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
		if _, err := d.devices.ask(ctx, aCandidate(t, d, id, "m-"+string(id[1:])), func(palyra.ID) { leaveLater() }); err == nil {
			t.Error("it is a device")
		}
		if n, err := d.desk.CountPending(t.Context()); err != nil || n != 0 {
			t.Errorf("%s: %d questions are open, %v", id, n, err)
		}
	}
}

// Under a name that is or was a device's nobody is asked.
func TestAUsedNameIsNotAskedAbout(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := aCandidate(t, d, "P1", "laptop")
	d.devices.wait(c, true)
	if _, err := d.devices.register(t.Context(), "C1", device.Pairing{
		Pairing: c.Pairing, Name: c.Name, PublicKey: c.PublicKey, KeyID: c.KeyID, Print: c.Fingerprint, Address: c.Address,
		Principal: c.Principal, Role: c.Role, By: c.By,
	}); err != nil {
		t.Fatal(err)
	}
	_, err = d.devices.ask(t.Context(), aCandidate(t, d, "P2", "laptop"), func(palyra.ID) { t.Error("asked") })
	if e := palyra.AsError(err); e.Reason != palyra.ReasonExists || e.Code != palyra.Conflict {
		t.Errorf("%v", err)
	}
}

// The keys that are listed are all that there were, the authority's too.
func TestRetiredAuthoritiesAreListed(t *testing.T) {
	d, err := open(t, home(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	keys := keysPart{d.ring, d}
	old := d.devices.authority.Key()
	next, err := keys.Rotate(t.Context(), useCA, "user:ann")
	if err != nil {
		t.Fatal(err)
	}
	var got []palyra.Key
	for _, k := range keys.List() {
		if k.Use == useCA {
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
