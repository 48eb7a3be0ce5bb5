//go:build linux

package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/ca"
	"palyra/internal/identity"
	"palyra/internal/pairing"
)

func serverFor(f *far) ca.ServerConfig {
	return ca.ServerConfig{Device: f.live, PairProtocol: pairing.Protocol}
}

// What somebody else could have read or written, and what is not whole, is not
// used; the message names it.
func TestLoadRemoteRefuses(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	f.join(dir)
	own := filepath.Join(dir, "work")
	record, key := filepath.Join(own, "remote.json"), filepath.Join(own, "device.key")
	edit := func(field string, value any) func() error {
		return func() error {
			raw, err := os.ReadFile(record)
			if err != nil {
				return err
			}
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
			m[field] = value
			raw, _ = json.Marshal(m)
			return os.WriteFile(record, raw, 0o600)
		}
	}
	other := func() error {
		_ = os.Remove(key)
		_, err := identity.Create(key)
		return err
	}
	protect := func() error {
		raw, err := os.ReadFile(key)
		if err != nil {
			return err
		}
		return os.WriteFile(key, bytes.Replace(raw, []byte(`"seed"`), []byte(`"protected"`), 1), 0o600)
	}
	link := func(path string) func() error {
		return func() error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		}
	}
	for _, c := range []struct {
		name  string
		spoil func() error
		want  palyra.Reason
	}{
		{"the record can be read", func() error { return os.Chmod(record, 0o640) }, palyra.ReasonUnsafePermissions},
		{"the key can be read", func() error { return os.Chmod(key, 0o604) }, palyra.ReasonUnsafePermissions},
		{"the directory can be entered", func() error { return os.Chmod(own, 0o755) }, palyra.ReasonUnsafePermissions},
		{"others write beside it", func() error { return os.Chmod(dir, 0o777) }, palyra.ReasonUnsafePermissions},
		{"the record is another's", func() error { return os.Chown(record, os.Geteuid()+1, -1) }, palyra.ReasonUnsafePermissions},
		{"the directory is another's", func() error { return os.Chown(own, os.Geteuid()+1, -1) }, palyra.ReasonUnsafePermissions},
		{"the record is a link", link(record), palyra.ReasonUnsafePermissions},
		{"the key is a link", link(key), palyra.ReasonUnsafePermissions},
		{
			"the record is a pipe", func() error { return errors.Join(os.Remove(record), syscall.Mkfifo(record, 0o600)) },
			palyra.ReasonUnsafePermissions,
		},
		{"the record is a directory", func() error { return errors.Join(os.Remove(record), os.Mkdir(record, 0o700)) }, palyra.ReasonConfig},
		{"no record", func() error { return os.Remove(record) }, palyra.ReasonConfig},
		{"no key", func() error { return os.Remove(key) }, palyra.ReasonConfig},
		{"too large", func() error { return os.WriteFile(record, bytes.Repeat([]byte(" "), 1<<20), 0o600) }, palyra.ReasonConfig},
		{"half", func() error { return os.Truncate(record, 100) }, palyra.ReasonConfig},
		{"empty", func() error { return os.Truncate(record, 0) }, palyra.ReasonConfig},
		{"another name", edit("name", "play"), palyra.ReasonConfig},
		{"no state", edit("state_id", ""), palyra.ReasonConfig},
		{"a bad address", edit("address", "x"), palyra.ReasonConfig},
		{"no authority", edit("authorities", []string{}), palyra.ReasonConfig},
		{"no certificate", edit("certificate", ""), palyra.ReasonConfig},
		{"a bad certificate", edit("certificate", "AAAA"), palyra.ReasonConfig},
		{"another device", edit("device", palyra.Device{KeyID: "op-1"}), palyra.ReasonConfig},
		{"another key", other, palyra.ReasonConfig},
		{"a key behind a passphrase", protect, palyra.ReasonConfig},
		{"half a key", func() error { return os.Truncate(key, 50) }, palyra.ReasonConfig},
	} {
		saved := filepath.Join(t.TempDir(), "saved")
		must(t, os.CopyFS(saved, os.DirFS(own)))
		if err := c.spoil(); errors.Is(err, os.ErrPermission) {
			continue // only root gives files away
		} else if err != nil {
			t.Fatal(c.name, err)
		}
		_, err := client.LoadRemote(dir, "work")
		e, ok := err.(*palyra.Error)
		if !ok || e.Reason != c.want || e.Remedy == "" {
			t.Errorf("%s: %#v", c.name, err)
		}
		must(t, os.Chmod(dir, 0o700))
		must(t, os.RemoveAll(own))
		must(t, os.CopyFS(own, os.DirFS(saved)))
		must(t, os.Chmod(own, 0o700))
		for _, name := range []string{"remote.json", "device.key", "device.crt"} {
			must(t, os.Chmod(filepath.Join(own, name), 0o600))
		}
		if _, err := client.LoadRemote(dir, "work"); err != nil {
			t.Fatalf("after %s: %v", c.name, err)
		}
	}
}

// Signatures are for the daemon of the pairing, not for whatever answers says it is.
func TestRemoteSignsForTheDaemonOfThePairing(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	f.join(dir)
	record := filepath.Join(dir, "work", "remote.json")
	raw, err := os.ReadFile(record)
	must(t, err)
	must(t, os.WriteFile(record, bytes.Replace(raw, []byte(`"state_id": "01STATE"`), []byte(`"state_id": "01OTHER"`), 1), 0o600))
	r, err := client.LoadRemote(dir, "work")
	must(t, err)
	c := f.open(client.Config{Remote: r, Door: client.OperatorDoor, Signer: r.Signer()})
	if _, err := c.AddUser(t.Context(), palyra.User{Principal: "user:bob", Role: palyra.RoleViewer}); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("%v", err)
	}
}

func TestRemotesAreListed(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	if list, err := client.Remotes(dir); err != nil || list != nil {
		t.Errorf("%v %v", list, err)
	}
	f.join(dir)
	must(t, os.Mkdir(filepath.Join(dir, ".joining-1"), 0o700))
	if list, err := client.Remotes(dir); err != nil || len(list) != 1 || list[0].Name != "work" {
		t.Errorf("%v %v", list, err)
	}
	for _, bad := range []string{"broken", "stray"} {
		must(t, os.Mkdir(filepath.Join(dir, bad), 0o700))
	}
	list, err := client.Remotes(dir)
	named(t, err, palyra.ReasonConfig)
	if len(list) != 1 || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "1 more") {
		t.Errorf("%v %v", list, err)
	}
	for _, name := range []string{"", ".", "..", "../work", "none", ".joining-1", "a/b", strings.Repeat("x", 100), "\x1b[31m"} {
		named(t, errOf(client.LoadRemote(dir, name)), palyra.ReasonNotFound)
	}
	named(t, errOf(client.Remotes(filepath.Join(dir, "work", "device.crt"))), palyra.ReasonConfig)
}

// What is forgotten is gone, key and all; nothing else can be named by it.
func TestForgetRemote(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	named(t, client.ForgetRemote(dir, "work"), palyra.ReasonNotFound)
	f.join(dir)
	must(t, os.Mkdir(filepath.Join(dir, "broken"), 0o700))
	must(t, os.Symlink(filepath.Join(dir, "work"), filepath.Join(dir, "link")))
	for _, name := range []string{"", ".", "..", "../remotes", "work/", "./work", "/", "a/b", "none", ".lock", filepath.Join(dir, "work")} {
		named(t, client.ForgetRemote(dir, name), palyra.ReasonNotFound)
	}
	named(t, client.ForgetRemote(dir, "link"), palyra.ReasonConfig)
	if got := left(t, dir); len(got) != 3 {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"work", "broken"} {
		must(t, client.ForgetRemote(dir, name))
	}
	if got := left(t, dir); len(got) != 1 || got[0] != "link" {
		t.Errorf("%v", got)
	}
}

// Where nobody pairs no PIN is asked for.
func TestJoinLooksFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "remotes")
	l := listen(t)
	_ = l.Close()
	err := errOf(client.Join(t.Context(), client.JoinRequest{
		Dir: dir, Device: "x", Address: l.Addr().String(),
		PIN: func() (palyra.Secret, error) {
			t.Error("the PIN was asked for")
			return palyra.Secret{}, errors.New("no")
		},
	}))
	named(t, err, palyra.ReasonPairingBroken)
	if got := left(t, dir); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// left lists what is in the directory of remotes.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

// A request that cannot work makes nothing, asks nobody and dials nobody.
func TestJoinRefusesFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "remotes")
	asked := func() (palyra.Secret, error) {
		t.Error("the PIN was asked for")
		return palyra.Secret{}, errors.New("no")
	}
	for _, q := range []client.JoinRequest{
		{Device: "x", Address: ""},
		{Device: "x", Address: "host"},
		{Device: "x", Address: "host:0"},
		{Device: "x", Address: "https://host:7443"},
		{Device: "x", Address: "host:99999"},
		{Device: "", Address: "host:7443"},
		{Device: "a b", Address: "host:7443"},
		{Device: "x", Address: "host:7443", Name: "../x"},
		{Device: "x", Address: "host:7443", Name: ".hidden"},
		{Device: "x", Code: "palyra-pair:1?"},
		{Device: "x", Code: "nonsense", Address: "host:7443"},
	} {
		q.Dir, q.PIN = dir, asked
		named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonMalformedInput)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", left(t, dir))
	}
}

// However a join fails, nothing of it stays; what a crash left goes with the next.
func TestJoinLeavesNothingHalf(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: f.address, PIN: pin("00000000")}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonPairingExpired) // no code is shown
	must(t, os.MkdirAll(filepath.Join(dir, ".joining-123", "sub"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".joining-123", "device.key"), []byte("secret"), 0o600))
	q.PIN = func() (palyra.Secret, error) {
		return palyra.Secret{}, palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "no")
	}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonCancelled)
	f.say = func(pairing.Candidate) error { return palyra.Errorf(palyra.Denied, palyra.ReasonApprovalDenied, "no") }
	q.PIN = pin(f.offered().PIN)
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonPairingRefused)
	l := listen(t)
	q.Address = l.Addr().String()
	must(t, l.Close())
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonPairingBroken)
	if names := left(t, dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

// The name is taken by somebody else while the person there decides: nothing of
// ours may get in its way, and nothing stays.
func TestJoinThatCannotBeKept(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	f.say = func(pairing.Candidate) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, "work"), 0o700), os.WriteFile(filepath.Join(dir, "work", "x"), nil, 0o600))
	}
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: f.address, PIN: pin(f.offered().PIN)}
	if _, err := client.Join(t.Context(), q); palyra.AsError(err).Reason != palyra.ReasonConfig {
		t.Errorf("%#v", err)
	}
	if names := left(t, dir); len(names) != 1 || names[0] != "work" {
		t.Errorf("%v", names)
	}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonExists)
}

func TestJoinOneAtATime(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: f.address}
	q.PIN = func() (palyra.Secret, error) {
		before := left(t, dir)
		other := q
		other.Name, other.PIN = "play", pin("00000000")
		named(t, errOf(client.Join(t.Context(), other)), palyra.ReasonPairingBusy)
		if now := left(t, dir); len(now) != 1 || now[0] != before[0] {
			t.Errorf("the other one's key is gone: %v, was %v", now, before)
		}
		return palyra.Secret{}, palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "enough")
	}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonCancelled)
}

// A wrong PIN may be typed again, with the same key, three times in all.
func TestJoinWrongPIN(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	right := f.offered().PIN
	wrong := strings.Map(func(r rune) rune { return '0' + (r-'0'+1)%10 }, right)
	typed, prints, said := []string{wrong, "12 34", right}, 0, []int{}
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: f.address, Prepared: func(string) { prints++ }}
	q.PIN = func() (palyra.Secret, error) {
		next := typed[0]
		typed = typed[1:]
		return palyra.NewSecret([]byte(next)), nil
	}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonPairingWrongCode) // nobody to tell: no second try
	typed = []string{wrong, "12 34", right[:4] + " " + right[4:]}
	q.Wrong = func(err error, left int) {
		named(t, err, palyra.ReasonPairingWrongCode)
		said = append(said, left)
	}
	prints = 0
	r, err := client.Join(t.Context(), q)
	must(t, err)
	if prints != 1 || len(said) != 2 || said[0] != 2 || said[1] != 1 {
		t.Errorf("%d keys, %v", prints, said)
	}
	must(t, status(t, r))
	typed, q.Name, said = []string{"1", "2", "3", "4"}, "other", nil
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonPairingWrongCode)
	if len(typed) != 1 || len(said) != 2 {
		t.Errorf("%v %v", typed, said)
	}
}

func TestJoinEndsWithTheContext(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	ctx, cancel := context.WithCancel(t.Context())
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: f.address, PIN: pin(f.offered().PIN)}
	q.Progress = func(s palyra.PairingState, _ string) {
		if s == palyra.PairingTrying {
			cancel()
		}
	}
	named(t, errOf(client.Join(ctx, q)), palyra.ReasonCancelled)
	if names := left(t, dir); len(names) != 0 {
		t.Errorf("%v", names)
	}
}

func TestJoinIntoAnUnsafePlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "remotes")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o755))
	q := client.JoinRequest{Dir: dir, Name: "work", Device: "laptop", Address: "127.0.0.1:1", PIN: pin("00000000")}
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonUnsafePermissions)
	q.Dir = filepath.Join(dir, "link")
	must(t, os.Symlink(t.TempDir(), q.Dir))
	named(t, errOf(client.Join(t.Context(), q)), palyra.ReasonUnsafePermissions)
}

func TestPlainName(t *testing.T) {
	for in, want := range map[string]string{
		"Laptop.example.org": "laptop.example.org", "192.0.2.7": "192.0.2.7", "::1": "1", "fe80::1%eth0": "fe80--1-eth0", "": "device",
		"---":     "device",
		"dev-box": "box", "dev-dev-": "dev", "dev-": "dev", "Ünicode": "nicode",
		strings.Repeat("ab-", 30): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-a", "x\x1b[31m": "x--31m",
	} {
		got := client.PlainName(in)
		if got != want || pairing.CheckName(got) != nil {
			t.Errorf("%q: %q, want %q (%v)", in, got, want, pairing.CheckName(got))
		}
	}
}
