package keyring

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"palyra"
)

// The example key of RFC 8410, as openssl writes it.
const rfc8410 = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
`

const rfc8410Public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"

// A key made elsewhere is taken over, and its names are what they always were:
// they stand in evidence that outlives this program.
func TestNamesOfAForeignKey(t *testing.T) {
	f := newFixture(t)
	must(t, os.Mkdir(f.dir, 0o700))
	must(t, os.WriteFile(filepath.Join(f.dir, "journal.key"), []byte(rfc8410), 0o600))
	s := f.open().Signer(Journal)
	if got := hex.EncodeToString(s.Public()); got != rfc8410Public {
		t.Fatalf("public key %s, want %s", got, rfc8410Public)
	}
	for name, c := range map[string]struct{ got, want string }{
		"id":       {s.KeyID(), "e744c0791320c328"},
		"name":     {s.Name(), "palyra/test/journal"},
		"verifier": {s.Verifier(), "palyra/test/journal+2728916a+ARm/RAlphM3+hUG6wWfcO5bIUIaqMLa2ywxcOK1wMWbh"},
		"use":      {string(s.Use()), string(Journal)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

// Work that goes on during rotations signs with one key at a time: id and
// signature belong together, and the id is on record.
func TestSigningDuringRotations(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	type signed struct {
		id  string
		pub ed25519.PublicKey
		sig []byte
	}
	var (
		mu   sync.Mutex
		all  []signed
		stop = make(chan struct{})
		wg   sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for {
				s := r.Signer(Attestation)
				sig, err := s.Sign([]byte("work"))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				all = append(all, signed{s.KeyID(), s.Public(), sig})
				mu.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 5 {
		f.rotate(r, Attestation)
	}
	close(stop)
	wg.Wait()
	known := map[string]bool{}
	for _, k := range r.List() {
		known[k.ID] = true
	}
	for _, s := range all {
		if !ed25519.Verify(s.pub, []byte("work"), s.sig) || KeyID(s.pub) != s.id || !known[s.id] {
			t.Fatalf("a signature of key %s is not its own", s.id)
		}
	}
}

// Rotations that race are done one after the other; the chain stays whole.
func TestRacingRotations(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := r.Rotate(t.Context(), Journal, "user:ada"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	raw, err := r.Export()
	if err != nil {
		t.Fatal(err)
	}
	trust, err := ParseTrust(raw)
	if err != nil || len(trust.Of(Journal)) != 5 {
		t.Errorf("%d keys, %v", len(trust.Of(Journal)), err)
	}
	if len(f.log.events) != 2+4 {
		t.Errorf("%d lines", len(f.log.events))
	}
}

func TestRotationWithoutAStore(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	before := r.Signer(Journal).KeyID()
	must(t, f.db.Close())
	if _, err := r.Rotate(t.Context(), Journal, "user:ada"); err == nil {
		t.Error("rotated without a store")
	}
	if got := r.Signer(Journal).KeyID(); got != before {
		t.Errorf("key %s, want %s", got, before)
	}
	if _, err := Open(t.Context(), f.config()); err == nil {
		t.Error("opened without a store")
	}
}

// Whoever signs with the key is told as soon as the rotation is a fact, even
// when the file is not in its place yet.
func TestListenersHearOfARotationWhoseFileStaysBehind(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	old, told := r.Signer(Journal).KeyID(), ""
	r.OnRotate(func(use palyra.KeyUse) { told = r.Signer(use).KeyID() })
	r.point = func(p string) {
		if p == "key.moved/lost" {
			must(t, os.Remove(filepath.Join(f.dir, "journal.key.next")))
		}
	}
	if _, err := r.Rotate(t.Context(), Journal, "user:ada"); palyra.AsError(err).Remedy == "" {
		t.Errorf("error %v", err)
	}
	if told == "" || told == old {
		t.Errorf("told %q, old key %q", told, old)
	}
}

func TestVerifierLines(t *testing.T) {
	pub, _ := base64.StdEncoding.DecodeString("GVXx0+iRW3kKQ0F0bm9uY2VzYWx0MTIzNDU2Nzg5MDE=")
	for _, name := range []string{"a", "palyra/x", "ü"} {
		if line := verifierLine(name, pub); verifierName(line) != name || !validName(name) {
			t.Errorf("%q: %s", name, line)
		}
	}
	for _, name := range []string{"", "a+b", "a b", "a\nb", "a\u2003b", "a\x00", "\xff"} {
		if validName(name) {
			t.Errorf("%q accepted as a name", name)
		}
	}
}
