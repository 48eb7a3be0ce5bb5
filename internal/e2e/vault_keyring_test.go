//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/vault/keepertest"
)

// works runs the command, which has to end well.
func (d *daemon) works(args ...string) string {
	d.t.Helper()
	out, err := d.palyra(args...).CombinedOutput()
	if err != nil {
		d.t.Errorf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// The vault's key moves into the desktop's keyring and leaves no file; the secret is there over a restart of the daemon,
// and over a new login. While the keyring is locked or gone, the secret is refused with what to do, and nothing else is.
func TestTheVaultsKeyInAKeyring(t *testing.T) {
	const value = "ghp_5uperSecretValueOfThisTest"
	session := keepertest.NewSession(t, false)
	session.Login()
	d := newDaemon(t)
	env := append([]string{"DBUS_SESSION_BUS_ADDRESS=" + session.Address, "PALYRA_POLICY_PRESET=default"}, unlimited...)
	restart := func() {
		t.Helper()
		d.stop()
		d.mustStart(env...)
	}
	d.ownWork()
	d.mustStart(env...)
	d.mustVault(value, "put", "github", "--from-stdin")
	if out := d.mustVault("", "rotate", "--keeper", "secret-service"); !strings.Contains(out, "secret-service") {
		t.Errorf("rotate: %s", out)
	}
	if left, err := filepath.Glob(filepath.Join(d.home, "keys", "*vault-*")); err != nil || len(left) != 0 {
		t.Errorf("files of keys are left: %v, %v", left, err)
	}
	get := func() {
		t.Helper()
		if out := d.mustVault("", "get", "github"); out != value+"\n" {
			t.Errorf("get: %q", out)
		}
	}
	get()
	restart()
	get()
	if out := d.mustVault("", "status"); !strings.Contains(out, "keyring") || !strings.Contains(out, "open") {
		t.Errorf("status:\n%s", out)
	}
	d.works("workspace", "add", d.work)
	for _, c := range []struct {
		name  string
		spoil func()
		words string
	}{
		{"locked", session.Lock, "the keyring is locked"},
		{"gone", session.Logout, "no Secret Service runs"},
	} {
		c.spoil()
		restart()
		out, errs, err := d.vault("", "get", "github")
		if err == nil || out != "" || !strings.Contains(errs, c.words) || !strings.Contains(errs, "remedy") {
			t.Errorf("%s: get: %q %q %v", c.name, out, errs, err)
		}
		if out, errs, err := d.vault(value, "put", "another", "--from-stdin"); err == nil || !strings.Contains(errs, c.words) {
			t.Errorf("%s: put: %q %q %v", c.name, out, errs, err)
		}
		if out := d.mustVault("", "status"); !strings.Contains(out, "locked") || !strings.Contains(out, "remedy") {
			t.Errorf("%s: vault status:\n%s", c.name, out)
		}
		d.mustVault("", "list")
		d.works("status")
		d.works("journal", "verify")
		if out := d.works("exec", "--", "echo", "goes on"); !strings.Contains(out, "goes on") {
			t.Errorf("%s: exec: %s", c.name, out)
		}
	}
	session.Login()
	get() // without a new start
	d.keepsNot(value)
}

// A daemon without a session says so when its vault is to move there, and the vault stays where it is.
func TestAKeyringWithoutASession(t *testing.T) {
	const value = "ghp_5uperSecretValueOfThisTest"
	d := newDaemon(t)
	d.mustStart(append([]string{"DBUS_SESSION_BUS_ADDRESS="}, unlimited...)...)
	d.mustVault(value, "put", "github", "--from-stdin")
	if _, errs, err := d.vault("", "rotate", "--keeper", "secret-service"); err == nil || !strings.Contains(errs, "DBUS_SESSION_BUS_ADDRESS") {
		t.Errorf("rotate: %q %v", errs, err)
	}
	if out := d.mustVault("", "get", "github"); out != value+"\n" {
		t.Errorf("get: %q", out)
	}
	d.stop()
	d.mustStart(append([]string{"DBUS_SESSION_BUS_ADDRESS="}, unlimited...)...)
	if out := d.mustVault("", "get", "github"); out != value+"\n" {
		t.Errorf("get after a restart: %q", out)
	}
}
