package keyring

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra"
)

// box is a vault that the test locks.
type box struct {
	mu   sync.Mutex
	held map[string][]byte
	shut bool
}

var errShut = palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the passphrase is not known").WithRemedy("palyra vault unlock")

func (b *box) Has(_ context.Context, name string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[name] != nil, nil
}

func (b *box) Load(_ context.Context, name string) (palyra.Secret, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.shut:
		return palyra.Secret{}, errShut
	case b.held[name] == nil:
		return palyra.Secret{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "nothing")
	}
	return palyra.NewSecret(slices.Clone(b.held[name])), nil
}

func (b *box) Store(_ context.Context, name string, key palyra.Secret) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return errShut
	}
	return key.Use(func(k []byte) error { b.held[name] = slices.Clone(k); return nil })
}

func (b *box) Remove(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut && b.held[name] != nil {
		return errShut
	}
	delete(b.held, name)
	return nil
}

// with opens a ring that has the vault, as a daemon does at its start.
func (f *fixture) with(b *box) *Ring {
	f.Helper()
	r := f.open()
	must(f.T, r.SetVault(f.Context(), b))
	return r
}

func (f *fixture) file() string { return filepath.Join(f.dir, "attestation.key") }

func (f *fixture) filed() bool {
	_, err := os.Lstat(f.file())
	return err == nil
}

func (r *Ring) where(use palyra.KeyUse) Place {
	p, _ := r.Place(use)
	return p
}

// signs holds that the ring signs with the key of that id.
func (f *fixture) signs(r *Ring, id string) {
	f.Helper()
	s := r.Signer(Attestation)
	if sig, err := s.Sign([]byte("text")); err != nil || len(sig) == 0 || s.KeyID() != id {
		f.Errorf("key %s, want %s: %v", s.KeyID(), id, err)
	}
}

// A key that was moved into the vault signs as before, over starts and rotations, and comes back into a file.
func TestKeysMoveIntoTheVaultAndBack(t *testing.T) {
	f, b := newFixture(t), &box{held: map[string][]byte{}}
	r := f.with(b)
	id := r.Signer(Attestation).KeyID()
	before, _ := os.ReadFile(f.file())
	for range 2 { // the second time there is nothing to do
		must(t, r.Move(t.Context(), Attestation, true, b))
		if f.filed() || len(b.held) != 1 || r.where(Attestation) != (Place{Vault: true}) {
			t.Fatalf("in a file: %v; in the vault: %d; %+v", f.filed(), len(b.held), r.where(Attestation))
		}
	}
	f.signs(r, id)
	r = f.with(b)
	f.signs(r, id)
	next := f.rotate(r, Attestation)
	f.signs(r, next.ID)
	r = f.with(b)
	f.signs(r, next.ID)
	if len(b.held) != 1 || f.filed() {
		t.Errorf("after a rotation: in a file: %v; in the vault: %d", f.filed(), len(b.held))
	}
	for range 2 {
		must(t, r.Move(t.Context(), Attestation, false, b))
		if !f.filed() || len(b.held) != 0 || r.where(Attestation) != (Place{File: true}) {
			t.Fatalf("in a file: %v; in the vault: %d", f.filed(), len(b.held))
		}
	}
	if now, _ := os.ReadFile(f.file()); string(now) == string(before) || !strings.HasPrefix(string(now), "-----BEGIN PRIVATE KEY") {
		t.Error("the file is not that of the rotated key")
	}
	f.signs(f.open(), next.ID)
	for _, use := range []palyra.KeyUse{Journal, "other"} {
		if err := r.Move(t.Context(), use, true, b); err == nil {
			t.Errorf("%s is moved", use)
		}
	}
}

// While the vault is locked everything but signing goes on, and signing does as soon as it opens.
func TestALockedVaultRefusesSigningAlone(t *testing.T) {
	f, b := newFixture(t), &box{held: map[string][]byte{}}
	r := f.with(b)
	must(t, r.Move(t.Context(), Attestation, true, b))
	id := r.Signer(Attestation).KeyID()
	b.shut = true
	f.signs(r, id) // this daemon has it
	r = f.with(b)  // the next one starts
	s := r.Signer(Attestation)
	for what, err := range map[string]error{
		"ready": s.Ready(), "sign": func() error { _, err := s.Sign([]byte("text")); return err }(),
		"rotate": func() error { _, err := r.Rotate(t.Context(), Attestation, "user:ada"); return err }(),
		"move":   r.Move(t.Context(), Attestation, false, b),
	} {
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonVaultLocked || !strings.Contains(e.Remedy, "unlock") ||
			!strings.Contains(e.Text, "attestation key is in the vault") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p, err := r.Place(Attestation); p != (Place{Vault: true}) || palyra.AsError(err).Reason != palyra.ReasonVaultLocked {
		t.Errorf("%+v, %v", p, err)
	}
	f.rotate(r, Journal)
	if s.KeyID() != id || len(r.List()) != 3 || s.Verifier() == "" {
		t.Errorf("what is public of it is not known: %s", s.KeyID())
	}
	b.shut = false
	if _, err := s.Sign([]byte("text")); err != nil { // the very signer that was refused
		t.Error(err)
	}
	f.rotate(r, Attestation)
}

// A key that neither place has, or that is another in the vault, is refused by name, and no new one takes its place.
func TestAKeyThatIsGoneFromTheVaultIsRefused(t *testing.T) {
	f, b := newFixture(t), &box{held: map[string][]byte{}}
	r := f.with(b)
	must(t, r.Move(t.Context(), Attestation, true, b))
	foreign := newFixture(t)
	must(t, func() error { foreign.open(); return nil }())
	theirs, err := os.ReadFile(foreign.file())
	must(t, err)
	for what, held := range map[string]map[string][]byte{
		"gone": {}, "another": {"attestation": theirs}, "none": {"attestation": []byte("no key")},
	} {
		r := f.open()
		err := r.SetVault(t.Context(), &box{held: held})
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonConfig || e.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if f.filed() {
		t.Error("a new key was made")
	}
}

// A crash at every point of a move leaves the key in one place or the same in both, and either move goes on from there.
func TestMovesSurviveCrashes(t *testing.T) {
	points := map[bool][]string{
		true:  {"key.vaulted/kept", "key.unfiled/lost", "key.unfiled/kept"},
		false: {"key.filed/kept", "key.unvaulted/kept"},
	}
	for toVault, all := range points {
		for _, point := range all {
			for _, then := range []bool{true, false} {
				f, b := newFixture(t), &box{held: map[string][]byte{}}
				r := f.with(b)
				id := r.Signer(Attestation).KeyID()
				if !toVault {
					must(t, r.Move(t.Context(), Attestation, true, b))
				}
				crash(t, r, point, func() { _ = r.Move(t.Context(), Attestation, toVault, b) })
				if n := len(b.held); n+btoi(f.filed()) == 0 || n > 1 {
					t.Fatalf("%s: in a file: %v; in the vault: %d", point, f.filed(), n)
				}
				r = f.with(b)
				f.signs(r, id)
				must(t, r.Move(t.Context(), Attestation, then, b))
				f.signs(f.with(b), id)
				if f.filed() == then || len(b.held) != btoi(then) {
					t.Errorf("%s, then %v: in a file: %v; in the vault: %d", point, then, f.filed(), len(b.held))
				}
			}
		}
	}
}

// A rotation after a move that was cut off leaves no earlier key in the vault; one in the vault that is cut off leaves one
// key in force.
func TestRotationsWithTheVaultSurviveCrashes(t *testing.T) {
	f, b := newFixture(t), &box{held: map[string][]byte{}}
	r := f.with(b)
	crash(t, r, "key.vaulted/kept", func() { _ = r.Move(t.Context(), Attestation, true, b) })
	r = f.with(b)
	if got := r.where(Attestation); got != (Place{File: true, Vault: true}) {
		t.Errorf("%+v", got)
	}
	next := f.rotate(r, Attestation).ID
	f.signs(f.with(b), next)
	if len(b.held) != 0 {
		t.Error("the vault has the key of before")
	}
	must(t, r.Move(t.Context(), Attestation, true, b))
	for _, point := range []string{"key.staged/kept", "key.moved/lost", "key.moved/kept"} {
		r = f.with(b)
		before := r.Signer(Attestation).KeyID()
		crash(t, r, point, func() { _, _ = r.Rotate(t.Context(), Attestation, "user:ada") })
		b.shut = true
		late := f.with(b) // it starts locked, and finishes the rotation when it can
		b.shut = false
		now := late.Signer(Attestation).KeyID()
		f.signs(late, now)
		if (now == before) != (point == "key.staged/kept") || len(b.held) != 1 || f.filed() {
			t.Errorf("%s: %s, then %s; in the vault: %d", point, before, now, len(b.held))
		}
	}
}

// crash runs f until it passes a point.
func crash(t *testing.T, r *Ring, point string, f func()) {
	t.Helper()
	r.point = func(p string) {
		if p == point {
			panic("crash")
		}
	}
	defer func() {
		if recover() == nil {
			t.Fatalf("%s was not passed", point)
		}
	}()
	f()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
