//go:build unix

package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/agefile"
)

// Guesses at passphrases cost nothing here: package agefile holds what they cost.
func TestMain(m *testing.M) {
	agefile.Cheapen()
	m.Run()
}

const goodPass = "correct horse"

func secret(text string) palyra.Secret { return palyra.NewSecret([]byte(text)) }

// filesIn reads every file of a directory.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		out[e.Name()] = raw
	}
	return out
}

// bareIn names the files that hold the signer's secret half in any usual form.
func bareIn(t *testing.T, dir string, s *Signer) []string {
	t.Helper()
	var found []string
	must(t, s.seed.Use(func(seed []byte) error {
		if len(seed) == 0 {
			t.Fatal("no seed to look for")
		}
		forms := [][]byte{
			seed, []byte(hex.EncodeToString(seed)), []byte(base64.RawStdEncoding.EncodeToString(seed)),
			[]byte(base64.RawURLEncoding.EncodeToString(seed)),
		}
		for name, raw := range filesIn(t, dir) {
			for _, form := range forms {
				if bytes.Contains(raw, form) {
					found = append(found, name)
				}
			}
		}
		return nil
	}))
	return found
}

func TestCreateProtected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "palyra", "operator.key")
	pass := secret(goodPass)
	made, err := CreateProtected(path, pass)
	must(t, err)
	if pass.Empty() {
		t.Error("the caller's passphrase was destroyed")
	}
	pass.Destroy()
	verify(t, made) // without asking
	dir := filepath.Dir(path)
	if found := bareIn(t, dir, made); len(found) > 0 {
		t.Errorf("the secret half lies bare in %v", found)
	}
	if files := filesIn(t, dir); len(files) != 1 || bytes.Contains(files["operator.key"], []byte(goodPass)) {
		t.Errorf("%q", files)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", p, info, err)
		}
	}
	made.Close()
	if _, err := made.Sign(palyra.Intent{KeyID: made.KeyID()}); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("signed after close: %v", err)
	}

	s, err := Load(path, ask(goodPass))
	must(t, err)
	if s.KeyID() != made.KeyID() || s.Separation() != palyra.SeparationPassphrase || made.Separation() != palyra.SeparationPassphrase {
		t.Errorf("%s %s, %s %s", made.KeyID(), made.Separation(), s.KeyID(), s.Separation())
	}
	verify(t, s)
	s, err = Load(path, ask("correct horsf"))
	must(t, err)
	if _, err := s.Sign(palyra.Intent{KeyID: s.KeyID()}); palyra.AsError(err).Reason != palyra.ReasonBadCredential {
		t.Errorf("wrong passphrase: %v", err)
	}
}

// What looks for a bare secret finds one.
func TestBareIn(t *testing.T) {
	path, s := create(t)
	if found := bareIn(t, filepath.Dir(path), s); len(found) == 0 {
		t.Error("a bare key was not found")
	}
}

func TestCheckPassphrase(t *testing.T) {
	for pass, ok := range map[string]bool{
		"": false, strings.Repeat("x", MinPassphrase-1): false, strings.Repeat("x", MinPassphrase): true,
		strings.Repeat("\u00e9", MinPassphrase/2): true,
	} {
		if err := CheckPassphrase(secret(pass)); (err == nil) != ok || err != nil && palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%q: %v", pass, err)
		}
	}
	if MinPassphrase != 12 {
		t.Errorf("the shortest passphrase has %d bytes", MinPassphrase)
	}
	if CheckPassphrase(palyra.Secret{}) == nil {
		t.Error("no passphrase was taken")
	}
}

// A passphrase that is too short leaves no trace, and a key that is there stays.
func TestCreateProtectedRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := CreateProtected(filepath.Join(dir, "k"), secret("elevenbytes")); palyra.CodeOf(err) != palyra.Invalid ||
		len(filesIn(t, dir)) != 0 {
		t.Errorf("short passphrase: %v", err)
	}
	path, _ := create(t)
	before := filesIn(t, filepath.Dir(path))
	if _, err := CreateProtected(path, secret(goodPass)); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("over another key: %v", err)
	}
	if after := filesIn(t, filepath.Dir(path)); len(after) != 1 || !bytes.Equal(after["operator.key"], before["operator.key"]) {
		t.Errorf("the key was touched: %q", after)
	}
}

// A disk that takes only half of the file leaves none.
func TestCreateProtectedOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	var old syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	small := old
	small.Cur = 300 // a key file is about twice as long
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	_, err := CreateProtected(filepath.Join(dir, "k"), secret(goodPass))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	if err == nil || len(filesIn(t, dir)) != 0 {
		t.Errorf("%v, left %q", err, filesIn(t, dir))
	}
}

const crashVariable = "PALYRA_TEST_CREATE_PROTECTED"

// TestCreateProtectedKilled kills a process as soon as it puts anything into the
// directory. Wherever that hits it, no file holds a bare key, what stands at the
// path is a whole key or nothing, and a key can be made afterwards.
func TestCreateProtectedKilled(t *testing.T) {
	if path := os.Getenv(crashVariable); path != "" {
		_, err := CreateProtected(path, secret(goodPass))
		must(t, err)
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "operator.key")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCreateProtectedKilled$")
	child.Env = append(os.Environ(), crashVariable+"="+path)
	must(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for seen := false; !seen; {
		list, err := os.ReadDir(dir)
		must(t, err)
		seen = len(list) > 0
		select {
		case err := <-ended:
			t.Fatalf("the child ended before it was killed: %v", err)
		default:
		}
	}
	_ = child.Process.Kill()
	<-ended

	for name, raw := range filesIn(t, dir) {
		if bytes.Contains(raw, []byte(`"seed"`)) {
			t.Errorf("%s holds a bare key: %s", name, raw)
		}
	}
	if _, err := os.Stat(path); err == nil {
		s, err := Load(path, ask(goodPass))
		must(t, err)
		verify(t, s)
		must(t, os.Remove(path))
	}
	if _, err := CreateProtected(path, secret(goodPass)); err != nil {
		t.Errorf("after a crash: %v", err)
	}
}
