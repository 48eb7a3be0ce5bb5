// Package keepertest says what a keeper of vault keys is: a suite that every one of them passes, and a session with a
// real keyring in it, away from the user's own, to pass it in.
package keepertest

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// Keeper is vault.KeyKeeper.
type Keeper interface {
	Load(ctx context.Context, id string, passphrase palyra.Secret) (palyra.Secret, error)
	Save(ctx context.Context, id string, key, passphrase palyra.Secret) error
	Forget(ctx context.Context, id string) error
}

// Two ids, as vaults make them.
const (
	first  = "01JCV8Z3N5T6W7X8Y9ABCDEFGH"
	second = "01JCV8Z3N5T6W7X8Y9ABCDEFGJ"
)

// suite is a keeper under test. Each use opens it anew, as a daemon that was started again does.
type suite struct {
	*testing.T
	open       func(dir string) Keeper
	passphrase palyra.Secret
}

// Run holds a keeper to what a vault needs of it. open returns the keeper of the state whose keys' directory it is given.
func Run(t *testing.T, passphrase string, open func(dir string) Keeper) {
	for name, test := range map[string]func(suite, string){
		"keys are kept and forgotten": suite.keeps,
		"two states":                  suite.apart,
		"what is no id":               suite.ids,
	} {
		t.Run(name, func(t *testing.T) { test(suite{t, open, palyra.NewSecret([]byte(passphrase))}, t.TempDir()) })
	}
}

// key makes a key that is no text: it ends in what readers of text cut off.
func key(of byte) []byte { return append(bytes.Repeat([]byte{of}, 28), 0, 255, '\r', '\n') }

func (s suite) save(dir, id string, key []byte) {
	s.Helper()
	if err := s.open(dir).Save(s.Context(), id, palyra.NewSecret(bytes.Clone(key)), s.passphrase); err != nil {
		s.Fatalf("save %s: %v", id, err)
	}
}

func (s suite) forget(dir, id string) {
	s.Helper()
	if err := s.open(dir).Forget(s.Context(), id); err != nil {
		s.Fatalf("forget %s: %v", id, err)
	}
}

func (s suite) want(dir, id string, key []byte) {
	s.Helper()
	got, err := s.open(dir).Load(s.Context(), id, s.passphrase)
	if err != nil {
		s.Fatalf("load %s: %v", id, err)
	}
	_ = got.Use(func(b []byte) error {
		if !bytes.Equal(b, key) {
			s.Errorf("another key is under %s", id)
		}
		return nil
	})
}

// gone wants a refusal that says what to do, and not what a key was.
func (s suite) gone(dir, id string, keys ...[]byte) {
	s.Helper()
	got, err := s.open(dir).Load(s.Context(), id, s.passphrase)
	Refused(s.T, err, palyra.Unavailable, palyra.ReasonVaultLocked)
	if !got.Empty() {
		s.Error("a key came with the refusal")
	}
	for _, k := range keys {
		if err != nil && strings.Contains(strings.ToLower(err.Error()), hex.EncodeToString(k)) {
			s.Error("the refusal has a key in it")
		}
	}
}

// Refused wants a refusal of a kind, which says what to do.
func Refused(t testing.TB, err error, code palyra.Code, reason palyra.Reason) {
	t.Helper()
	if e := palyra.AsError(err); err == nil || e.Code != code || e.Reason != reason || e.Text == "" || e.Remedy == "" {
		t.Errorf("refused as %v, not %s, %s with a remedy", err, code, reason)
	}
}

func (s suite) keeps(dir string) {
	s.gone(dir, first)
	s.forget(dir, first) // which was never there
	s.save(dir, first, key(1))
	s.save(dir, second, key(0))
	s.want(dir, first, key(1))
	s.want(dir, second, key(0))
	s.forget(dir, first)
	s.forget(dir, first)
	s.gone(dir, first, key(1), key(0))
	s.save(dir, second, key(3))
	s.want(dir, second, key(3))
}

func (s suite) apart(dir string) {
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for _, d := range []string{one, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			s.Fatal(err)
		}
	}
	s.save(one, first, key(1))
	s.gone(other, first, key(1))
	s.save(other, first, key(2))
	s.want(one, first, key(1))
	s.forget(other, first)
	s.want(one, first, key(1))
}

func (s suite) ids(dir string) {
	for _, id := range []string{
		"", " ", "..", "../" + first, "a/b", "a\x00", "a\nb", "-w", first + "\"", strings.Repeat("a", 65), "ä", "*",
	} {
		k := s.open(dir)
		for what, err := range map[string]error{
			"save":   k.Save(s.Context(), id, palyra.NewSecret(key(1)), s.passphrase),
			"forget": k.Forget(s.Context(), id),
			"load":   func() error { _, err := k.Load(s.Context(), id, s.passphrase); return err }(),
		} {
			if palyra.CodeOf(err) != palyra.Invalid {
				s.Errorf("%s %q: %v", what, id, err)
			}
		}
	}
}
