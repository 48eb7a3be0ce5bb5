//go:build unix

package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra"
)

func ask(pass string) func() (palyra.Secret, error) {
	return func() (palyra.Secret, error) { return palyra.NewSecret([]byte(pass)), nil }
}

func create(t *testing.T) (string, *Signer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "palyra", "operator.key")
	s, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, s
}

// verify signs an intent with s and checks the signature with the public half.
func verify(t *testing.T, s *Signer) {
	t.Helper()
	i := palyra.Intent{Audience: "a", Method: "m", KeyID: s.KeyID()}
	sig, err := s.Sign(i)
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := base64.StdEncoding.DecodeString(s.Public())
	raw, _ := base64.StdEncoding.DecodeString(sig)
	msg, _ := i.Bytes()
	if !ed25519.Verify(pub, msg, raw) {
		t.Error("the signature does not verify")
	}
}

func TestCreateAndLoad(t *testing.T) {
	path, made := create(t)
	verify(t, made)
	s, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, s)
	if s.KeyID() != made.KeyID() || s.Separation() != palyra.SeparationNone || !strings.HasPrefix(s.KeyID(), "op-") {
		t.Errorf("%s %s", s.KeyID(), s.Separation())
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*"))
	if len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path, _ := create(t)
	before, _ := os.ReadFile(path)
	if _, err := Create(path); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("second create: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the key was replaced")
	}
}

func TestSignsOnlyForItself(t *testing.T) {
	_, s := create(t)
	if _, err := s.Sign(palyra.Intent{KeyID: "op-other"}); err == nil {
		t.Error("signed for another key")
	}
	s.Close()
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); err == nil {
		t.Error("signed after close")
	}
}

// protected makes a key behind a passphrase.
func protected(t *testing.T, pass string) (string, *Signer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "palyra", "operator.key")
	s, err := CreateProtected(path, palyra.NewSecret([]byte(pass)))
	must(t, err)
	return path, s
}

func TestProtectedNeedsItsPassphrase(t *testing.T) {
	path, made := protected(t, "correct horse")
	s, err := Load(path, ask("wrong passphrase"))
	if err != nil || s.KeyID() != made.KeyID() || s.Separation() != palyra.SeparationPassphrase {
		t.Fatalf("%v %v", s, err)
	}
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); palyra.AsError(err).Reason != palyra.ReasonBadCredential {
		t.Errorf("wrong passphrase: %v", err)
	}
	s, _ = Load(path, nil)
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("nobody to ask: %v", err)
	}
}

func TestProtectedAsksOnce(t *testing.T) {
	path, _ := protected(t, "correct horse")
	asked := 0
	s, err := Load(path, func() (palyra.Secret, error) {
		asked++
		if asked == 1 {
			return palyra.Secret{}, errors.New("the terminal went away")
		}
		return palyra.NewSecret([]byte("correct horse")), nil
	})
	if err != nil || asked != 0 {
		t.Fatalf("asked %d times before the first signature: %v", asked, err)
	}
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); err == nil {
		t.Error("signed without a passphrase")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { verify(t, s) })
	}
	wg.Wait()
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	cases := map[string]func(t *testing.T, path string){
		"group readable":    func(t *testing.T, p string) { must(t, os.Chmod(p, 0o640)) },
		"world readable":    func(t *testing.T, p string) { must(t, os.Chmod(p, 0o604)) },
		"writable by group": func(t *testing.T, p string) { must(t, os.Chmod(p, 0o620)) },
		"symbolic link": func(t *testing.T, p string) {
			must(t, os.Rename(p, p+".real"))
			must(t, os.Symlink(p+".real", p))
		},
		"directory": func(t *testing.T, p string) {
			must(t, os.Remove(p))
			must(t, os.Mkdir(p, 0o700))
		},
		"pipe": func(t *testing.T, p string) {
			must(t, os.Remove(p))
			must(t, syscall.Mkfifo(p, 0o600))
		},
		"open directory": func(t *testing.T, p string) { must(t, os.Chmod(filepath.Dir(p), 0o777)) },
	}
	if os.Geteuid() == 0 {
		cases["foreign owner"] = func(t *testing.T, p string) { must(t, os.Chown(p, 65534, -1)) }
		cases["foreign directory"] = func(t *testing.T, p string) { must(t, os.Chown(filepath.Dir(p), 65534, -1)) }
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			path, _ := create(t)
			spoil(t, path)
			if _, err := Load(path, nil); palyra.AsError(err).Reason != palyra.ReasonUnsafePermissions {
				t.Errorf("load: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMissingKey(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none"), nil); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("%v", err)
	}
}

func TestDamagedFiles(t *testing.T) {
	path, _ := create(t)
	raw, _ := os.ReadFile(path)
	other, _ := create(t)
	foreign, _ := os.ReadFile(other)
	var a, b file
	must(t, json.Unmarshal(raw, &a))
	must(t, json.Unmarshal(foreign, &b))
	swap := func(f file, change func(*file)) []byte {
		change(&f)
		out, _ := json.Marshal(f)
		return out
	}
	for name, bad := range map[string][]byte{
		"empty":         {},
		"text":          []byte("hello"),
		"version":       swap(a, func(f *file) { f.Version = 2 }),
		"foreign seed":  swap(a, func(f *file) { f.Seed = b.Seed }),
		"foreign key":   swap(a, func(f *file) { f.PublicKey = b.PublicKey }),
		"foreign id":    swap(a, func(f *file) { f.KeyID = b.KeyID }),
		"no secret":     swap(a, func(f *file) { f.Seed = "" }),
		"both":          swap(a, func(f *file) { f.Protected = "AAAA" }),
		"bad seed":      swap(a, func(f *file) { f.Seed = "!" }),
		"short seed":    swap(a, func(f *file) { f.Seed = "AAAA" }),
		"bad public":    swap(a, func(f *file) { f.PublicKey = "AAAA" }),
		"unknown field": []byte(`{"palyra_operator_key":1,"more":1}`),
		"two documents": append(append([]byte{}, raw...), raw...),
		"too long":      []byte(`{"seed":"` + strings.Repeat("A", maxFile) + `"}`),
	} {
		must(t, os.WriteFile(path, bad, 0o600))
		if _, err := Load(path, nil); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.WriteFile(path, swap(a, func(f *file) { f.Seed, f.Protected = "", "!!" }), 0o600))
	s, err := Load(path, ask("x"))
	must(t, err)
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("bad sealed part: %v", err)
	}
}

func TestSignerPrintsNoSecret(t *testing.T) {
	path, s := create(t)
	raw, _ := os.ReadFile(path)
	var f file
	must(t, json.Unmarshal(raw, &f))
	seed, _ := base64.StdEncoding.DecodeString(f.Seed)
	for _, text := range []string{fmt.Sprintf("%v", s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s)} {
		if strings.Contains(text, string(seed)) || strings.Contains(text, f.Seed) {
			t.Errorf("the secret half is printed: %q", text)
		}
	}
}

// Property: no input panics, and what is accepted holds the secret exactly once.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"palyra_operator_key":1,"key_id":"op-","public_key":"","created_at":"","seed":"AAAA"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := parse(raw)
		if err != nil {
			return
		}
		if (k.Seed == "") == (k.Protected == "") {
			t.Fatalf("%q", raw)
		}
		if pub, err := k.public(); err == nil {
			_, _ = k.bare(pub)
		}
	})
}
