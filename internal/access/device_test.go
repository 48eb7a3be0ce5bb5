package access

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func (b *bench) candidate(name, of string, role palyra.Role) (palyra.Device, person) {
	p := newPerson(of, role)
	return palyra.Device{
		Name: name, Principal: p.Principal, Role: role, PublicKey: p.PublicKey, Certificate: palyra.SumBytes([]byte(name)), Serial: "01",
		ExpiresAt: b.now.Add(30 * 24 * time.Hour), PairedBy: "user:alice", Call: "C1", Address: "192.0.2.7:5000",
	}, p
}

// pair adds a device of somebody, by the owner.
func (b *bench) pair(name, of string, role palyra.Role) (palyra.Device, person) {
	b.t.Helper()
	c, p := b.candidate(name, of, role)
	d, err := b.AddDevice(b.t.Context(), c, "P1")
	b.must(err)
	return d, p
}

func TestDeviceLife(t *testing.T) {
	b := newBench(t)
	d, key := b.pair("phone", "alice", palyra.RoleApprover)
	if d.KeyID != key.KeyID || d.ID != "dev-"+strings.TrimPrefix(key.KeyID, "op-") || !d.PairedAt.Equal(b.now) {
		t.Errorf("%+v", d)
	}
	b.open()
	for _, name := range []string{d.ID, "phone"} {
		if got, err := b.Device(t.Context(), name); err != nil || !cmp.Equal(got, d) {
			t.Errorf("%+v %v", got, err)
		}
	}
	if got, err := b.DeviceByKey(t.Context(), d.KeyID); err != nil || got.ID != d.ID {
		t.Errorf("%+v %v", got, err)
	}
	op, _, err := b.CheckIntent(t.Context(), b.sign(key, nil))
	want := palyra.Operator{
		Principal: "user:alice", Role: palyra.RoleApprover, KeyID: d.KeyID, PublicKey: d.PublicKey, Separation: palyra.SeparationDevice,
		Device: d.ID, AddedAt: b.now,
	}
	if err != nil || op != want {
		t.Errorf("%+v %v", op, err)
	}
	next := palyra.SumBytes([]byte("next"))
	later := b.now.Add(60 * 24 * time.Hour)
	if got, err := b.RenewDevice(t.Context(), d.ID, next, "02", later); err != nil || got.Certificate != next || !got.ExpiresAt.Equal(later) {
		t.Errorf("%+v %v", got, err)
	}
	ended := b.ends()
	gone, err := b.RevokeDevice(t.Context(), d.ID, b.sign(b.owner, nil))
	if err != nil || gone.RevokedBy != "user:alice" || gone.Live() || gone.Serial != "02" ||
		!slices.Equal(*ended, []string{"device:" + d.ID}) {
		t.Errorf("%+v %v %v", gone, err, *ended)
	}
	b.wants(b.check(b.sign(key, nil)), palyra.ReasonDeviceRevoked)
	_, err = b.DeviceByKey(t.Context(), d.KeyID)
	b.wants(err, palyra.ReasonDeviceRevoked)
	_, err = b.RenewDevice(t.Context(), d.ID, next, "03", later)
	b.wants(err, palyra.ReasonDeviceRevoked)
	_, err = b.RevokeDevice(t.Context(), d.ID, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonNotFound)
	if all, err := b.Devices(t.Context()); err != nil || len(all) != 1 || all[0].Live() {
		t.Errorf("%+v %v", all, err)
	}
	if got := b.journal.kinds(); !slices.Equal(got[2:], []string{"device.paired", "device.renewed", "device.revoked"}) {
		t.Errorf("journal: %v", got)
	}
}

func TestDeviceNamesAndKeysAreGivenOnce(t *testing.T) {
	b := newBench(t)
	d, key := b.pair("phone", "alice", palyra.RoleApprover)
	other, _ := b.candidate("phone", "alice", palyra.RoleViewer)
	same, _ := b.candidate("tablet", "alice", palyra.RoleViewer)
	same.PublicKey = d.PublicKey
	owners, _ := b.candidate("desk", "alice", palyra.RoleViewer)
	owners.PublicKey = b.owner.PublicKey
	try := func() {
		t.Helper()
		for _, c := range []palyra.Device{other, same, owners} {
			_, err := b.AddDevice(t.Context(), c, "P2")
			b.wants(err, palyra.ReasonExists)
		}
		_, err := b.AddOperator(t.Context(), key.Operator, b.sign(b.owner, nil))
		b.wants(err, palyra.ReasonExists) // a device's key is not an operator's as well
	}
	try()
	_, err := b.RevokeDevice(t.Context(), d.ID, b.sign(b.owner, nil))
	b.must(err)
	try()
}

func TestTwoDevicesForOneName(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	won := make(chan string, 8)
	for range cap(won) {
		c, _ := b.candidate("phone", "alice", palyra.RoleViewer)
		wg.Go(func() {
			if d, err := b.AddDevice(t.Context(), c, "P1"); err == nil {
				won <- d.ID
			}
		})
	}
	wg.Wait()
	if all, err := b.Devices(t.Context()); err != nil || len(all) != 1 || len(won) != 1 || all[0].ID != <-won {
		t.Errorf("%+v %v", all, err)
	}
}

func TestBadDevicesAreRefused(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*palyra.Device){
		"no name":        func(d *palyra.Device) { d.Name = "" },
		"like an id":     func(d *palyra.Device) { d.Name = "dev-1" },
		"odd name":       func(d *palyra.Device) { d.Name = "a b" },
		"role agent":     func(d *palyra.Device) { d.Role = palyra.RoleAgent },
		"no role":        func(d *palyra.Device) { d.Role = "" },
		"no key":         func(d *palyra.Device) { d.PublicKey = "" },
		"short key":      func(d *palyra.Device) { d.PublicKey = "AAAA" },
		"no certificate": func(d *palyra.Device) { d.Certificate = "" },
		"no serial":      func(d *palyra.Device) { d.Serial = "" },
		"long serial":    func(d *palyra.Device) { d.Serial = strings.Repeat("1", 65) },
		"expired":        func(d *palyra.Device) { d.ExpiresAt = b.now },
		"no call":        func(d *palyra.Device) { d.Call = "" },
		"long address":   func(d *palyra.Device) { d.Address = strings.Repeat("1", 257) },
	} {
		d, _ := b.candidate("phone", "alice", palyra.RoleViewer)
		change(&d)
		if _, err := b.AddDevice(t.Context(), d, "P1"); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := b.Device(t.Context(), "none")
	b.wants(err, palyra.ReasonNotFound)
	_, err = b.Device(t.Context(), "")
	b.wants(err, palyra.ReasonNotFound)
	_, err = b.DeviceByKey(t.Context(), "op-none")
	b.wants(err, palyra.ReasonUnknownKey)
	_, err = b.RenewDevice(t.Context(), "dev-none", palyra.SumBytes(nil), "1", b.now.Add(time.Hour))
	b.wants(err, palyra.ReasonNotFound)
	_, err = b.RenewDevice(t.Context(), "dev-none", "", "1", b.now.Add(time.Hour))
	b.wants(err, palyra.ReasonMalformedInput)
}

func TestWhoMayPairWhat(t *testing.T) {
	b := newBench(t)
	admin, viewer := b.add("bob", palyra.RoleAdmin), b.add("vic", palyra.RoleViewer)
	for name, c := range map[string]struct {
		by   person
		of   palyra.Principal
		role palyra.Role
		want palyra.Reason
	}{
		"own":                  {admin, "", "", ""},
		"own, named":           {admin, "user:bob", palyra.RoleAdmin, ""},
		"more than one is":     {admin, "user:bob", palyra.RoleOwner, palyra.ReasonPermission},
		"another's":            {admin, "user:vic", palyra.RoleViewer, palyra.ReasonPermission},
		"an owner's":           {admin, "user:alice", palyra.RoleViewer, palyra.ReasonPermission},
		"owner for another":    {b.owner, "user:vic", palyra.RoleViewer, ""},
		"more than they are":   {b.owner, "user:vic", palyra.RoleApprover, palyra.ReasonPermission},
		"without permission":   {viewer, "", palyra.RoleViewer, palyra.ReasonPermission},
		"nobody's":             {b.owner, "user:none", palyra.RoleViewer, palyra.ReasonNotFound},
		"an agent's":           {b.owner, "agent:local", palyra.RoleViewer, palyra.ReasonNotFound},
		"with an agent's role": {b.owner, "", palyra.RoleAgent, palyra.ReasonMalformedInput},
	} {
		p, role, err := b.MayPair(t.Context(), c.of, c.role, b.sign(c.by, nil))
		if c.want == "" && (err != nil || p == "" || role == "") || c.want != "" && palyra.AsError(err).Reason != c.want {
			t.Errorf("%s: %s %s %v", name, p, role, err)
		}
	}
	// What changed while the code was shown counts.
	d, _ := b.candidate("phone", "bob", palyra.RoleAdmin)
	d.PairedBy = "user:bob"
	b.must(b.changeUser(b.owner, "bob", palyra.RoleViewer))
	_, err := b.AddDevice(t.Context(), d, "P1")
	b.wants(err, palyra.ReasonPermission)
	b.must(b.RemoveUser(t.Context(), "user:bob", b.sign(b.owner, nil)))
	_, err = b.AddDevice(t.Context(), d, "P1")
	b.wants(err, palyra.ReasonNoCredential)
}

func TestWhoMayRevokeADevice(t *testing.T) {
	b := newBench(t)
	admin := b.add("bob", palyra.RoleAdmin)
	d, _ := b.pair("phone", "alice", palyra.RoleViewer)
	own, key := b.pair("watch", "bob", palyra.RoleAdmin)
	_, err := b.RevokeDevice(t.Context(), d.ID, b.sign(admin, nil))
	b.wants(err, palyra.ReasonPermission) // an owner's device, whatever its role
	_, err = b.RevokeDevice(t.Context(), "phone", b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonNotFound) // by id, which is what was signed
	if _, err = b.RevokeDevice(t.Context(), own.ID, b.sign(key, nil)); err != nil {
		t.Errorf("a device cannot end itself: %v", err)
	}
}

func TestDeviceIsBoundByItsPerson(t *testing.T) {
	b := newBench(t)
	_, key := b.pair("phone", "alice", palyra.RoleAdmin)
	_, err := b.addUser(key, "x", palyra.RoleOwner)
	b.wants(err, palyra.ReasonPermission) // the device is an admin's, though alice is an owner
	_, err = b.AddOperator(t.Context(), newPerson("alice", palyra.RoleOwner).Operator, b.sign(key, nil))
	b.wants(err, palyra.ReasonPermission)
	_, err = b.addUser(key, "x", palyra.RoleViewer)
	b.must(err)
}

func TestSeen(t *testing.T) {
	b := newBench(t)
	d, _ := b.pair("phone", "alice", palyra.RoleViewer)
	b.now = b.now.Add(90 * time.Second)
	want := b.now.Truncate(time.Minute)
	b.Seen(d.ID)
	if got, err := b.Device(t.Context(), d.ID); err != nil || !got.SeenAt.Equal(want) {
		t.Errorf("%v %v", got.SeenAt, err)
	}
	b.must(b.flush(t.Context()))
	if len(b.seen) != 0 {
		t.Error("kept after it was written")
	}
	b.open()
	if got, err := b.Device(t.Context(), d.ID); err != nil || !got.SeenAt.Equal(want) {
		t.Errorf("after a restart: %v %v", got.SeenAt, err)
	}
	b.now = b.now.Add(-time.Hour) // a clock set back takes nothing away
	b.Seen(d.ID)
	b.must(b.flush(t.Context()))
	if got, _ := b.Device(t.Context(), d.ID); !got.SeenAt.Equal(want) {
		t.Errorf("%v", got.SeenAt)
	}
}
