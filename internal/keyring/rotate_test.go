package keyring

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestRotate(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	old, other := r.Signer(Attestation), r.Signer(Journal)
	var told []string
	r.OnRotate(func(use palyra.KeyUse) { told = append(told, string(use)+" "+r.Signer(use).KeyID()) })
	f.now = f.now.Add(time.Hour)
	k := f.rotate(r, Attestation)

	now := r.Signer(Attestation)
	if now.KeyID() != k.ID || k.ID == old.KeyID() || now.Name() != old.Name() {
		t.Errorf("signer %v after rotating %v to %v", now, old, k)
	}
	if r.Signer(Journal) != other {
		t.Error("the other key moved")
	}
	if diff := cmp.Diff([]string{"attestation " + k.ID}, told); diff != "" {
		t.Error(diff)
	}
	e := f.log.events[2].(palyra.KeyRotated)
	msg, _ := rotationMessage(e.Old, e.Key)
	sig, _ := base64.StdEncoding.DecodeString(e.Sig)
	if !ed25519.Verify(old.Public(), msg, sig) || e.By != "user:ada" || e.Old != old.KeyID() || e.Key.ID != k.ID {
		t.Errorf("event %+v", e)
	}
	list := r.List()
	if len(list) != 3 || !list[1].RetiredAt.Equal(f.now) || !list[2].CreatedAt.Equal(f.now) || !list[0].RetiredAt.IsZero() {
		t.Errorf("history %+v", list)
	}
	if diff := cmp.Diff(list, f.open().List()); diff != "" {
		t.Errorf("restart: %s", diff)
	}
	if got, _ := filepath.Glob(filepath.Join(f.dir, "*")); len(got) != 2 {
		t.Errorf("files left: %v", got)
	}
}

func TestRotateRefuses(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	if _, err := r.Rotate(t.Context(), "vault", "user:ada"); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("unknown use: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.turn <- struct{}{}
	if _, err := r.Rotate(ctx, Journal, "user:ada"); !errors.Is(err, context.Canceled) {
		t.Errorf("busy ring: %v", err)
	}
	r.release()
	before := r.Signer(Journal)
	f.log.fail = errors.New("journal down")
	if _, err := r.Rotate(t.Context(), Journal, "user:ada"); err == nil || r.Signer(Journal).KeyID() != before.KeyID() {
		t.Errorf("rotated without a line: %v", err)
	}
	f.log.fail = nil
	f.rotate(r, Journal) // and it recovers in the same process
	f.rotate(f.open(), Journal)
}

// A crash at every point leaves one key in force, table and file agreeing, and
// the ring able to rotate on.
func TestRotationSurvivesCrashes(t *testing.T) {
	for _, c := range []struct {
		point string
		kept  bool
	}{{"key.staged/kept", false}, {"key.moved/lost", true}, {"key.moved/kept", true}} {
		t.Run(strings.ReplaceAll(c.point, "/", "-"), func(t *testing.T) {
			f := newFixture(t)
			r := f.open()
			old := r.Signer(Journal).KeyID()
			r.point = func(p string) {
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
				_, _ = r.Rotate(t.Context(), Journal, "user:ada")
			}()
			must(t, os.WriteFile(filepath.Join(f.dir, ".journal.key.next.ABC.tmp"), []byte("cut"), 0o600))
			again := f.open()
			now := again.Signer(Journal).KeyID()
			if (now != old) != c.kept {
				t.Errorf("key %s before, %s after", old, now)
			}
			rotated := len(f.log.events) == 3
			if rotated != c.kept {
				t.Errorf("journal has %d lines, rotation kept: %v", len(f.log.events), c.kept)
			}
			if got, _ := os.ReadDir(f.dir); len(got) != 2 {
				t.Errorf("files left: %v", got)
			}
			f.rotate(again, Journal)
			f.open()
		})
	}
}

// A commit whose answer got lost: the table has the new key, the process does
// not know. The next rotation must not overwrite the staged private key.
func TestRotationAfterALostAnswer(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	before := r.Signer(Journal)
	r.point = func(p string) {
		if p == "key.moved/lost" {
			panic("answer lost")
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = r.Rotate(t.Context(), Journal, "user:ada")
	}()
	r.point = func(string) {}
	r.mu.Lock()
	r.signers[Journal] = before // as if the commit had not been acknowledged
	r.mu.Unlock()
	f.rotate(r, Journal)
	raw, err := r.Export()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := ParseTrust(raw)
	if err != nil || len(trust.Of(Journal)) != 3 {
		t.Errorf("chain of %d keys, %v", len(trust.Of(Journal)), err)
	}
}

func TestPromoteFailureKeepsTheNewKey(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	moved := filepath.Join(f.dir, "journal.key.next")
	r.point = func(p string) {
		if p == "key.moved/lost" {
			if err := os.Rename(moved, moved+".away"); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := r.Rotate(t.Context(), Journal, "user:ada")
	if palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("error %v", err)
	}
	now := r.Signer(Journal).KeyID()
	f.refused(palyra.ReasonConfig, now) // the file is really gone
	if err := os.Rename(moved+".away", moved); err != nil {
		t.Fatal(err)
	}
	if got := f.open().Signer(Journal).KeyID(); got != now {
		t.Errorf("key %s, want %s", got, now)
	}
}
