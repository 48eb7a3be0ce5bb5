package ca

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func (f *fixture) rotate(a *Authority) (old, next palyra.Key, sig string) {
	f.t.Helper()
	old, next, sig, err := a.Rotate(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return old, next, sig
}

func TestRotate(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	was, seed, first := a.Key(), a.current().key.copy(), a.current()
	f.pass(5 * day)
	old, next, sig := f.rotate(a)

	if old.ID != was.ID || !old.RetiredAt.Equal(f.now) || next.ID == was.ID || next != a.Key() {
		t.Errorf("rotated %+v to %+v", old, next)
	}
	oldPub, _ := base64.StdEncoding.DecodeString(old.PublicKey)
	newPub, _ := base64.StdEncoding.DecodeString(next.PublicKey)
	raw, _ := base64.StdEncoding.DecodeString(sig)
	if !ed25519.Verify(oldPub, append([]byte("palyra/ca-rotation/v1\x00"), newPub...), raw) {
		t.Error("the old key did not sign the new one")
	}
	b := f.open()
	for _, x := range []*Authority{a, b} {
		certs := x.Certificates()
		if len(certs) != 2 || parsed(t, certs[0]).Subject.CommonName != "Palyra CA "+next.ID ||
			parsed(t, certs[1]).Subject.CommonName != "Palyra CA "+old.ID {
			t.Errorf("certificates of %d authorities, not newest first", len(certs))
		}
		if diff := cmp.Diff([]Rotation{{Old: old, New: next, Sig: sig}}, x.Rotations()); diff != "" {
			t.Error(diff)
		}
		leaf := parsed(t, newDevice(t).renew(t, x).leaf.DER)
		if !strings.HasSuffix(leaf.DNSNames[0], "."+next.ID+".palyra.internal") {
			t.Errorf("issued for %s", leaf.DNSNames[0])
		}
	}
	if strings.Contains(string(f.keep.held), base64.StdEncoding.EncodeToString(seed)) || !first.key.seed.Empty() {
		t.Error("the retired authority's private key is still there")
	}
	if _, err := first.sign(deviceTemplate(newDevice(t).id, first.id), newDevice(t).public(), f.now, day); err == nil {
		t.Error("the retired authority still signs")
	}
	want := []string{old.ID + ".crt", next.ID + ".crt"}
	slices.Sort(want)
	if diff := cmp.Diff(want, f.published()); diff != "" {
		t.Error(diff)
	}
}

// A retired authority goes out of service when the last of its certificates has
// expired, and out of the keeper with the next rotation.
func TestARetiredAuthorityEnds(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	first := a.ID()
	f.rotate(a)
	f.pass(30 * day)
	if len(a.Certificates()) != 2 {
		t.Error("it ended before its certificates")
	}
	f.pass(grace + time.Second)
	if len(a.Certificates()) != 1 || a.verify(parsed(t, d.leaf.DER)) == nil {
		t.Error("it is served after its certificates have ended")
	}
	if b := f.open(); len(b.Certificates()) != 1 || len(b.st.issuers) != 2 || len(f.published()) != 1 {
		t.Error("a clock alone took it out of the keeper")
	}
	f.rotate(a)
	for _, i := range f.open().st.issuers {
		if i.id == first {
			t.Error("it is still kept")
		}
	}
}

// Certificates made while they held longer keep their authority in service.
func TestShorterCertificatesDoNotCutOffOlderOnes(t *testing.T) {
	f := newFixture(t)
	f.days = 300
	d := newDevice(t).renew(t, f.open())
	f.days = 2
	a := f.open()
	f.rotate(a)
	f.pass(day)
	f.rotate(a)
	f.pass(10 * day) // the second, with its two days, has ended; the first has not
	if err := a.verify(parsed(t, d.leaf.DER)); err != nil {
		t.Error(err)
	}
	f.rotate(a)
	if err := f.open().verify(parsed(t, d.leaf.DER)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestLongerCertificatesAreKnownBeforeTheFirstIsIssued(t *testing.T) {
	f := newFixture(t)
	f.open()
	f.days = 90
	f.keep.lost = errors.New("full")
	if _, err := Open(t.Context(), f.config()); !errors.Is(err, f.keep.lost) {
		t.Errorf("opened: %v", err)
	}
	f.keep.lost = nil
	d := newDevice(t).renew(t, f.open())
	f.days = 1
	a := f.open()
	f.rotate(a)
	f.pass(89 * day)
	if err := a.verify(parsed(t, d.leaf.DER)); err != nil {
		t.Error(err)
	}
}

func TestRotateRefuses(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.turn <- struct{}{}
	if _, _, _, err := a.Rotate(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("busy: %v", err)
	}
	<-a.turn
	f.keep.blind = errors.New("locked")
	if _, _, _, err := a.Rotate(t.Context()); !errors.Is(err, f.keep.blind) {
		t.Errorf("locked keeper: %v", err)
	}
	f.keep.blind = nil
	newDevice(t).renew(t, a)
	for range mostIssuers - 1 {
		f.rotate(a)
	}
	before := a.ID()
	if _, _, _, err := a.Rotate(t.Context()); palyra.CodeOf(err) != palyra.Exhausted || palyra.AsError(err).Remedy == "" {
		t.Errorf("one too many: %v", err)
	}
	if a.ID() != before || len(f.open().Certificates()) != mostIssuers {
		t.Error("the refused rotation changed something")
	}
	f.pass(31 * day)
	f.rotate(a)
}

// A crash at every point leaves one authority in force, kept and published, and
// able to rotate on.
func TestRotationSurvivesCrashes(t *testing.T) {
	for _, c := range []struct {
		point string
		kept  bool
	}{{"ca.staged/kept", false}, {"ca.rotated/kept", true}} {
		t.Run(strings.ReplaceAll(c.point, "/", "-"), func(t *testing.T) {
			f := newFixture(t)
			a := f.open()
			old := a.ID()
			d := newDevice(t).renew(t, a)
			a.point = func(p string) {
				if p == c.point {
					panic("crash")
				}
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Fatal("the point was not passed")
					}
				}()
				_, _, _, _ = a.Rotate(t.Context())
			}()
			b := f.open()
			if (b.ID() != old) != c.kept || (len(b.Rotations()) == 1) != c.kept || (len(f.published()) == 2) != c.kept {
				t.Errorf("authority %s before, %s after; rotations %v; published %v", old, b.ID(), b.Rotations(), f.published())
			}
			if err := b.verify(parsed(t, d.leaf.DER)); err != nil {
				t.Errorf("the device: %v", err)
			}
			if _, err := b.serverCert("daemon."+old+".palyra.internal", false); err != nil {
				t.Errorf("the device's server: %v", err)
			}
			f.rotate(b)
			if got := f.open().ID(); got != b.ID() || got == old {
				t.Errorf("rotated on to %s, reopened %s", b.ID(), got)
			}
		})
	}
}

// A store that fails leaves the old authority in force, the new one, or, while
// nobody can tell, none that issues certificates.
func TestRotationWhenTheKeeperFails(t *testing.T) {
	broken := errors.New("broken")
	t.Run("lost", func(t *testing.T) {
		f := newFixture(t)
		a := f.open()
		old := a.ID()
		f.keep.lost = broken
		if _, _, _, err := a.Rotate(t.Context()); !errors.Is(err, broken) || a.ID() != old || len(f.published()) != 1 {
			t.Errorf("error %v, authority %s was %s, published %v", err, a.ID(), old, f.published())
		}
		f.keep.lost = nil
		newDevice(t).renew(t, a)
		f.rotate(a)
	})
	t.Run("kept", func(t *testing.T) {
		f := newFixture(t)
		a := f.open()
		old := a.ID()
		f.keep.kept = broken
		_, _, _, err := a.Rotate(t.Context())
		if !errors.Is(err, broken) || palyra.CodeOf(err) != palyra.Unavailable || a.ID() == old || len(a.Rotations()) != 1 {
			t.Errorf("error %v, authority %s was %s", err, a.ID(), old)
		}
		f.keep.kept = nil
		if leaf := parsed(t, newDevice(t).renew(t, a).leaf.DER); !strings.Contains(leaf.DNSNames[0], a.ID()) || f.open().ID() != a.ID() {
			t.Error("not the authority that is kept")
		}
		f.rotate(a)
	})
	t.Run("nobody knows", func(t *testing.T) {
		f := newFixture(t)
		a := f.open()
		d := newDevice(t).renew(t, a)
		f.keep.kept = broken
		a.point = func(p string) {
			if p == "ca.staged/kept" {
				f.keep.blind = errors.New("gone")
			}
		}
		if _, _, _, err := a.Rotate(t.Context()); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
		if _, err := a.IssueDevice(d.public(), d.id); palyra.CodeOf(err) != palyra.Unavailable {
			t.Errorf("issued: %v", err)
		}
		if err := a.verify(parsed(t, d.leaf.DER)); err != nil {
			t.Errorf("devices are cut off: %v", err)
		}
		f.keep.kept, f.keep.blind, a.point = nil, nil, func(string) {}
		f.rotate(a)
		d.renew(t, a)
		if len(a.Rotations()) != 2 { // the one that was kept and this one
			t.Errorf("rotations %v", a.Rotations())
		}
	})
}

func TestCheckRotation(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	f.rotate(a)
	f.rotate(a)
	rs := a.Rotations()
	if len(rs) != 2 || CheckRotation(rs[0]) != nil || CheckRotation(rs[1]) != nil || rs[0].New.ID != rs[1].Old.ID {
		t.Fatalf("rotations %+v", rs)
	}
	for name, spoil := range map[string]func(r *Rotation){
		"swapped":       func(r *Rotation) { r.Old, r.New = r.New, r.Old },
		"another's sig": func(r *Rotation) { r.Sig = rs[1].Sig },
		"another new":   func(r *Rotation) { r.New = rs[1].New },
		"another id":    func(r *Rotation) { r.New.ID = rs[1].New.ID },
		"another use":   func(r *Rotation) { r.New.Use = "journal" },
		"no sig":        func(r *Rotation) { r.Sig = "" },
		"no base64":     func(r *Rotation) { r.Sig = "?" },
		"short key":     func(r *Rotation) { r.Old.PublicKey = r.Old.PublicKey[:8] },
		"nothing":       func(r *Rotation) { *r = Rotation{} },
	} {
		r := rs[0]
		spoil(&r)
		if err := CheckRotation(r); reason(err) != palyra.ReasonBadSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A daemon answers to the names of its authorities in service, and to no other.
func TestServes(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	first := "daemon." + a.ID() + ".palyra.internal"
	f.rotate(a)
	second := "daemon." + a.ID() + ".palyra.internal"
	for name, want := range map[string]bool{
		first: true, second: true, "": false, "daemon.palyra.internal": false, "daemon.0123456789abcdef.palyra.internal": false,
		"x" + first: false, first + ".": false, strings.ToUpper(first): false,
	} {
		if got := a.Serves(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	f.pass(400 * day)
	if a.Serves(first) || !a.Serves(second) {
		t.Error("an authority that is out of service still has its name")
	}
}
