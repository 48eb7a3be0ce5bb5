package ca

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"palyra"
)

// box is a vault that the test locks.
type box struct{ memory }

func (b *box) Has(context.Context, string) (bool, error) { return b.held != nil, nil }

func (b *box) Remove(context.Context, string) error { b.held = nil; return b.lost }

var errShut = palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the passphrase is not known").WithRemedy("palyra vault unlock")

// moving is an authority whose keys can be moved.
type moving struct {
	*fixture
	dir string
	box *box
}

func (m moving) open() (*Authority, *Movable) {
	m.t.Helper()
	store := NewMovable(m.dir, m.box)
	c := m.config()
	c.KeyStore = store
	a, err := Open(m.t.Context(), c)
	if err != nil {
		m.t.Fatal(err)
	}
	return a, store
}

func (m moving) filed() bool {
	_, err := os.Lstat(filepath.Join(m.dir, "ca.key"))
	return err == nil
}

func newMoving(t *testing.T) moving {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return moving{newFixture(t), dir, &box{}}
}

func (m moving) move(a *Authority, s *Movable, toVault bool) {
	m.t.Helper()
	if err := a.Move(m.t.Context(), s, toVault, m.box); err != nil {
		m.t.Fatal(err)
	}
}

// The authority's keys go into the vault and back; it stays the same one, knows its devices, and rotates where they are.
func TestTheAuthorityMovesIntoTheVaultAndBack(t *testing.T) {
	m := newMoving(t)
	a, s := m.open()
	id := a.ID()
	m.move(a, s, true)
	m.move(a, s, true)
	if p, err := a.Place(t.Context(), s); m.filed() || m.box.held == nil || err != nil || p != (Place{Vault: true}) {
		t.Fatalf("%+v, %v", p, err)
	}
	d := newDevice(t).renew(t, a)
	a, s = m.open()
	if a.ID() != id || a.verify(parsed(t, d.leaf.DER)) != nil {
		t.Errorf("it was %s, and is %s", id, a.ID())
	}
	_, next, _, err := a.Rotate(t.Context())
	if err != nil || m.filed() {
		t.Fatal(err, m.filed())
	}
	m.move(a, s, false)
	m.move(a, s, false)
	if a, _ = m.open(); a.ID() != next.ID || !m.filed() || m.box.held != nil {
		t.Errorf("%s, want %s", a.ID(), next.ID)
	}
}

// While the vault is locked the authority knows nobody, says why, makes no other one, and goes on when the vault opens.
func TestAnAuthorityInALockedVault(t *testing.T) {
	m := newMoving(t)
	a, s := m.open()
	id, d := a.ID(), newDevice(t).renew(t, a)
	m.move(a, s, true)
	m.box.blind = errShut
	a, s = m.open()
	_, issue := a.IssueDevice(d.public(), d.id)
	_, leaf := a.ServerLeaf("")
	_, _, _, rotate := a.Rotate(t.Context())
	for what, err := range map[string]error{
		"ready": a.Ready(), "issue": issue, "serve": leaf, "rotate": rotate, "verify": a.verify(parsed(t, d.leaf.DER)),
		"move": a.Move(t.Context(), s, false, m.box),
	} {
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonVaultLocked {
			t.Errorf("%s: %v", what, err)
		}
	}
	if a.ID() != "" || a.Key().ID != "" || len(a.Certificates()) != 0 || a.Serves("daemon."+id+zoneSuffix) || len(a.Rotations()) != 0 {
		t.Errorf("it knows itself: %q", a.ID())
	}
	if p, err := a.Place(t.Context(), s); p != (Place{Vault: true}) || palyra.AsError(err).Remedy == "" {
		t.Errorf("%+v, %v", p, err)
	}
	m.box.blind = nil
	if err := a.verify(parsed(t, d.leaf.DER)); err != nil || a.ID() != id {
		t.Errorf("with the vault open: %v, %q", err, a.ID())
	}
}

// A move that is cut off leaves the keys in one place, or the same in both, and either move goes on from there. A rotation
// after it leaves none of before in the vault.
func TestMovesOfTheAuthoritySurviveCrashes(t *testing.T) {
	for _, point := range []string{"ca.copied/kept", "ca.unfiled/lost"} {
		for _, then := range []bool{true, false} {
			m := newMoving(t)
			a, s := m.open()
			id := a.ID()
			s.point = func(p string) {
				if p == point {
					panic("crash")
				}
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Fatalf("%s was not passed", point)
					}
				}()
				_ = a.Move(t.Context(), s, true, m.box)
			}()
			a, s = m.open()
			if a.ID() != id {
				t.Errorf("%s: it was %s, and is %s", point, id, a.ID())
			}
			m.move(a, s, then)
			if again, _ := m.open(); again.ID() != id || m.filed() == then || (m.box.held != nil) != then {
				t.Errorf("%s, then %v: in a file: %v; %s", point, then, m.filed(), again.ID())
			}
		}
	}
	m := newMoving(t)
	a, s := m.open()
	m.box.held = []byte("left by a move")
	if _, _, _, err := a.Rotate(t.Context()); err != nil || m.box.held != nil {
		t.Errorf("%v; in the vault: %q", err, m.box.held)
	}
	m.box.kept = nil
	m.box.lost = errors.New("the vault takes nothing")
	if err := a.Move(t.Context(), s, true, m.box); err == nil || !m.filed() {
		t.Errorf("%v; in a file: %v", err, m.filed())
	}
}
