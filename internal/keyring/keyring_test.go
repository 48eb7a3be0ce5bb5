package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// fixture is a state on disk that rings can be opened on again and again.
type fixture struct {
	*testing.T
	dir string
	db  *store.DB
	log *lines
	now time.Time
}

// lines is a journal that keeps what was committed.
type lines struct {
	events []palyra.Event
	fail   error
}

func (l *lines) Append(tx *store.Tx, e palyra.Event) (palyra.Position, error) {
	if l.fail != nil {
		return palyra.Position{}, l.fail
	}
	l.events = append(l.events, e)
	n := len(l.events)
	tx.OnDone(func(ok bool) {
		if !ok {
			l.events = l.events[:n-1]
		}
	})
	return palyra.Position{Seq: int64(n)}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	engine, err := sqlite.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &fixture{T: t, dir: filepath.Join(dir, "keys"), db: db, log: &lines{}, now: time.Date(2026, 11, 15, 12, 0, 0, 5, time.UTC)}
}

func (f *fixture) config() Config {
	return Config{Dir: f.dir, DB: f.db, Name: "palyra/test", Now: func() time.Time { return f.now }}
}

// open opens a ring and attaches the journal, as a daemon does at its start.
func (f *fixture) open() *Ring {
	f.Helper()
	r, err := Open(f.Context(), f.config())
	if err != nil {
		f.Fatal(err)
	}
	if err := r.Attach(f.Context(), f.log); err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *fixture) rotate(r *Ring, use palyra.KeyUse) palyra.Key {
	f.Helper()
	k, err := r.Rotate(f.Context(), use, "user:ada")
	if err != nil {
		f.Fatal(err)
	}
	return k
}

func (f *fixture) refused(want palyra.Reason, mention string) {
	f.Helper()
	_, err := Open(f.Context(), f.config())
	var e *palyra.Error
	if !errors.As(err, &e) || e.Reason != want || e.Remedy == "" || !strings.Contains(e.Text, mention) {
		f.Errorf("open: %v (%+v), want reason %s mentioning %q", err, e, want, mention)
	}
}

func TestFirstOpenMakesKeysOnce(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	for _, use := range Uses() {
		info, err := os.Lstat(r.Path(use))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", use, info, err)
		}
	}
	if info, _ := os.Stat(f.dir); info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v", info.Mode())
	}
	want := []palyra.Event{palyra.KeyCreated{Key: r.List()[0]}, palyra.KeyCreated{Key: r.List()[1]}}
	if diff := cmp.Diff(want, f.log.events); diff != "" {
		t.Error(diff)
	}

	again := f.open()
	if diff := cmp.Diff(r.List(), again.List()); diff != "" {
		t.Errorf("keys changed over a restart: %s", diff)
	}
	if len(f.log.events) != 2 {
		t.Errorf("%d events, want no new ones", len(f.log.events))
	}
	if r.Signer("other") != nil {
		t.Error("a signer for an unknown use")
	}
}

func TestCrashBeforeAttachKeepsTheKey(t *testing.T) {
	f := newFixture(t)
	r, err := Open(t.Context(), f.config())
	if err != nil {
		t.Fatal(err)
	}
	id := r.Signer(Journal).KeyID()
	f.log.fail = errors.New("disk full")
	if err := r.Attach(t.Context(), f.log); err == nil {
		t.Error("attached without its lines")
	}
	if _, err := r.Rotate(t.Context(), Journal, "user:ada"); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("rotated without a journal: %v", err)
	}
	f.log.fail = nil
	if got := f.open().Signer(Journal).KeyID(); got != id {
		t.Errorf("key %s, want %s", got, id)
	}
	if len(f.log.events) != 2 {
		t.Errorf("events %v", f.log.events)
	}
}

// The signer must be one that golang.org/x/mod/sumdb/note accepts.
func TestSignerIsANoteSigner(t *testing.T) {
	s := newFixture(t).open().Signer(Journal)
	var _ note.Signer = s
	want, err := note.NewEd25519VerifierKey(s.Name(), s.Public())
	if err != nil || want != s.Verifier() {
		t.Fatalf("verifier %q, want %q (%v)", s.Verifier(), want, err)
	}
	v, err := note.NewVerifier(s.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: "palyra\n1\n"}, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(msg, note.VerifierList(v)); err != nil {
		t.Error(err)
	}
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, key string){
		"group can read": func(t *testing.T, _, key string) { must(t, os.Chmod(key, 0o640)) },
		"world can read": func(t *testing.T, _, key string) { must(t, os.Chmod(key, 0o604)) },
		"directory open": func(t *testing.T, dir, _ string) { must(t, os.Chmod(dir, 0o750)) },
		"symlink": func(t *testing.T, dir, key string) {
			must(t, os.Rename(key, key+"x"))
			must(t, os.Symlink(key+"x", key))
		},
		"directory":              func(t *testing.T, _, key string) { must(t, os.Remove(key)); must(t, os.Mkdir(key, 0o700)) },
		"directory is a symlink": func(t *testing.T, dir, _ string) { must(t, os.Rename(dir, dir+"x")); must(t, os.Symlink(dir+"x", dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			key := f.open().Path(Attestation)
			spoil(t, f.dir, key)
			f.refused(palyra.ReasonUnsafePermissions, f.dir)
		})
	}
}

func TestForeignOwnerIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can give a file away")
	}
	f := newFixture(t)
	key := f.open().Path(Journal)
	must(t, os.Chown(key, 12345, -1))
	f.refused(palyra.ReasonUnsafePermissions, "uid 12345")
}

func TestWrongKeyFilesAreRefused(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "huge": strings.Repeat("x", 2*maxKeyFile),
		"other type": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"bad DER":    "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"two keys":   "",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			key := f.open().Path(Journal)
			if name == "two keys" {
				raw, _ := os.ReadFile(key)
				content = string(raw) + string(raw)
			}
			must(t, os.WriteFile(key, []byte(content), 0o600))
			f.refused(palyra.ReasonConfig, key)
		})
	}
}

func TestKeyThatIsNotOnRecordIsRefused(t *testing.T) {
	f := newFixture(t)
	key := f.open().Path(Journal)
	must(t, os.Remove(key))
	f.refused(palyra.ReasonConfig, "on record")
	other, _ := newKey()
	must(t, writeKey(key, other))
	f.refused(palyra.ReasonConfig, "on record")
}

func TestCredentials(t *testing.T) {
	f := newFixture(t)
	creds := t.TempDir()
	must(t, os.Chmod(creds, 0o500))
	t.Cleanup(func() { _ = os.Chmod(creds, 0o700) }) // so that it can be removed
	cfg := f.config()
	cfg.Credentials = creds
	put := func(name string, mode os.FileMode) string {
		key, _ := newKey()
		must(t, os.Chmod(creds, 0o700))
		must(t, writeKey(filepath.Join(creds, name), key))
		must(t, os.Chmod(filepath.Join(creds, name), mode))
		must(t, os.Chmod(creds, 0o550))
		return KeyID(public(key))
	}
	put("attestation.key.next", 0o400)
	if _, err := Open(t.Context(), cfg); palyra.AsError(err).Reason != palyra.ReasonConfig {
		t.Errorf("a next key without one before: %v", err)
	}
	must(t, os.Chmod(creds, 0o700))
	must(t, os.Remove(filepath.Join(creds, "attestation.key.next")))
	id := put("attestation.key", 0o440) // as systemd shows an access list
	open := func() *Ring {
		r, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		must(t, r.Attach(t.Context(), f.log))
		return r
	}
	r := open()
	if r.Signer(Attestation).KeyID() != id || filepath.Dir(r.Path(Journal)) != f.dir {
		t.Errorf("keys %v", r.List())
	}
	if _, err := r.Rotate(t.Context(), Attestation, "user:ada"); palyra.AsError(err).Reason != palyra.ReasonDisabled {
		t.Errorf("rotated a credential: %v", err)
	}
	next := put("attestation.key.next", 0o400)
	r = open()
	if got := r.Signer(Attestation).KeyID(); got != id {
		t.Errorf("key %s before the rotation, want %s", got, id)
	}
	if k := f.rotate(r, Attestation); k.ID != next {
		t.Errorf("rotated to %s, want %s", k.ID, next)
	}
	if got := open().Signer(Attestation).KeyID(); got != next {
		t.Errorf("after a restart %s, want %s", got, next)
	}
	must(t, os.Chmod(filepath.Join(creds, "attestation.key"), 0o444))
	if _, err := Open(t.Context(), cfg); palyra.AsError(err).Reason != palyra.ReasonUnsafePermissions {
		t.Errorf("world-readable credential: %v", err)
	}
}

// No verb, marshaller or error shows a private key.
func TestPrivateKeysAreNotShown(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	s := r.Signer(Journal)
	var seed []byte
	_ = s.private.Use(func(b []byte) error { seed = bytes.Clone(b[:32]); return nil })
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&shown, verb+verb+verb+verb, s, r, struct{ S *Signer }{s}, *s)
	}
	for _, v := range []any{s, r} {
		b, _ := json.Marshal(v)
		shown.Write(b)
	}
	file, _ := os.ReadFile(r.Path(Journal))
	must(t, os.WriteFile(r.Path(Journal), append(file, "trailer"...), 0o600))
	_, err := Open(t.Context(), f.config())
	fmt.Fprintf(&shown, "%v %+v %#v", err, err, err)
	for _, form := range []string{
		string(seed), fmt.Sprintf("%x", seed), fmt.Sprintf("%X", seed), fmt.Sprint(seed),
		base64.StdEncoding.EncodeToString(seed), string(file[30:60]),
	} {
		if strings.Contains(shown.String(), form) {
			t.Errorf("a private key is shown as %q", form)
		}
	}
}

func TestOpenNeedsItsConfiguration(t *testing.T) {
	f := newFixture(t)
	for name, spoil := range map[string]func(*Config){
		"no dir": func(c *Config) { c.Dir = "" }, "no store": func(c *Config) { c.DB = nil }, "no clock": func(c *Config) { c.Now = nil },
		"no name": func(c *Config) { c.Name = "" }, "plus": func(c *Config) { c.Name = "a+b" }, "space": func(c *Config) { c.Name = "a b" },
		"dir is a file": func(c *Config) { c.Dir = filepath.Join(filepath.Dir(c.Dir), "state.db") },
	} {
		cfg := f.config()
		spoil(&cfg)
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
