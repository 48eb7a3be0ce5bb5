//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// private writes a file that only its owner can read.
func private(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What one daemon exports another one takes in, with its own key; nobody else reads it, and nothing of it is in what
// either of them keeps or says. A vault whose key is lost begins anew from it.
func TestSecretsMoveToAnotherMachine(t *testing.T) {
	t.Parallel()
	const pass = "the recovery words of this test"
	values := map[string]string{
		"github": "ghp_5uperSecretValueOfThisTest", "npm --scope channel:ci": "npm_5uperSecretValueOfTheChannel",
		"large": strings.Repeat("a large secret of 64 KiB ", 2600),
	}
	from, to := newDaemon(t), newDaemon(t)
	from.mustStart(unlimited...)
	from.mustVault("an older value of github", "put", "github", "--from-stdin")
	for name, value := range values {
		from.mustVault(value, append([]string{"put", "--from-stdin"}, strings.Fields(name)...)...)
	}
	file, recovery := filepath.Join(t.TempDir(), "vault.age"), private(t, pass+"\n")
	if out, errs, err := from.vault("", "export", file); err == nil || !strings.Contains(errs, "--passphrase-file") {
		t.Errorf("nobody is asked: %q %q %v", out, errs, err)
	}
	if _, errs, err := from.vault("", "export", file, "--passphrase-file", private(t, "elevenbytes")); err == nil ||
		!strings.Contains(errs, "12 characters") {
		t.Errorf("a short passphrase: %q %v", errs, err)
	}
	if out := from.mustVault("", "export", file, "--passphrase-file", recovery, "--json"); !strings.Contains(out, `"versions":4`) {
		t.Errorf("export: %s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, errs, err := from.vault("", "export", file, "--passphrase-file", recovery); err == nil || !strings.Contains(errs, "--force") {
		t.Errorf("over a file: %q %v", errs, err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{pass, values["github"], values["large"][:60]} {
		for how, text := range encodings(value) {
			if bytes.Contains(raw, []byte(text)) {
				t.Errorf("the file has %.20q %s", value, how)
			}
		}
	}

	to.mustStart(unlimited...)
	if out, errs, err := to.vault("a wrong passphrase\n", "import", file, "--passphrase-file", "-"); err == nil || out != "" ||
		!strings.Contains(errs, "passphrase does not open the export") {
		t.Errorf("a wrong passphrase: %q %q %v", out, errs, err)
	}
	cut := private(t, string(raw[:len(raw)-100]))
	if _, errs, err := to.vault("", "import", cut, "--passphrase-file", recovery); err == nil || !strings.Contains(errs, "cut short") {
		t.Errorf("a part of it: %q %v", errs, err)
	}
	if out := to.mustVault("", "status"); !strings.Contains(out, "empty") {
		t.Errorf("after what was refused:\n%s", out)
	}
	if out := to.mustVault("", "import", file, "--passphrase-file", recovery); !strings.Contains(out, "4 versions imported") ||
		!strings.Contains(out, "3 were added") {
		t.Errorf("import: %s", out)
	}
	to.hasAll(values)
	if out := to.mustVault("", "get", "github", "--version", "1"); out != "an older value of github\n" {
		t.Errorf("the older one: %q", out)
	}
	to.beginsAnew(file, recovery, values)
	for _, d := range []*daemon{from, to} {
		d.verify()
		d.keepsNot(pass, "an older value of github", values["github"], values["npm --scope channel:ci"], values["large"][:60])
	}
}

// hasAll reads all values.
func (d *daemon) hasAll(values map[string]string) {
	d.t.Helper()
	for name, value := range values {
		if out := d.mustVault("", append([]string{"get"}, strings.Fields(name)...)...); out != value+"\n" {
			d.t.Errorf("%s: %.60q", name, out)
		}
	}
}

// beginsAnew loses the vault's key and restores the vault from an export.
func (d *daemon) beginsAnew(file, recovery string, values map[string]string) {
	d.t.Helper()
	d.stop()
	keys, err := filepath.Glob(filepath.Join(d.home, "keys", "vault-*.key"))
	if err != nil || len(keys) != 1 {
		d.t.Fatalf("%v, %v", keys, err)
	}
	if err := os.Remove(keys[0]); err != nil {
		d.t.Fatal(err)
	}
	d.mustStart(unlimited...)
	if _, errs, err := d.vault("", "get", "github"); err == nil || !strings.Contains(errs, "import --anew") {
		d.t.Errorf("without its key: %q %v", errs, err)
	}
	if _, errs, err := d.vault("", "import", file, "--passphrase-file", recovery); err == nil || !strings.Contains(errs, "import --anew") {
		d.t.Errorf("into a vault that does not open: %q %v", errs, err)
	}
	d.mustVault("", "import", "--anew", file, "--passphrase-file", recovery)
	d.hasAll(values)
	d.stop()
	d.mustStart(unlimited...)
	d.hasAll(values)
}

// A person is asked for the passphrase, twice for a new one, and what they type is not shown; the age tool's format is
// what they get.
func TestAnExportAtATerminal(t *testing.T) {
	t.Parallel()
	const pass = "correct horse battery"
	d := newDaemon(t)
	d.mustStart(unlimited...)
	d.mustVault("ghp_5uperSecretValueOfThisTest", "put", "github", "--from-stdin")
	file := filepath.Join(t.TempDir(), "vault.age")
	at := func(args ...string) *terminal {
		cmd := exec.Command(bin(t, "palyra"), append([]string{"vault"}, args...)...)
		cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home)
		return atTerminal(t, cmd)
	}
	differ := at("export", file)
	differ.secret("New passphrase")
	differ.enter(pass)
	differ.secret("The same again")
	differ.enter(pass + "x")
	if code, said := differ.end(); code == 0 || !strings.Contains(said, "differ") {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("there is a file")
	}
	same := at("export", file)
	same.secret("New passphrase")
	same.enter(pass)
	same.secret("The same again")
	same.enter(pass)
	if code, said := same.end(); code != 0 || strings.Contains(said, pass) || !strings.Contains(said, "1 version,") {
		t.Errorf("exit %d: %s", code, said)
	}
	raw, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(raw), "age-encryption.org/v1\n-> scrypt ") {
		t.Errorf("%.60q, %v", raw, err)
	}
	in := at("import", file)
	in.secret("Passphrase of the export")
	in.enter(pass)
	if code, said := in.end(); code != 0 || strings.Contains(said, pass) || !strings.Contains(said, "1 as they were") {
		t.Errorf("exit %d: %s", code, said)
	}
	d.keepsNot(pass)
}
