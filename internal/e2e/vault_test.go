//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/client"
)

// vault runs 'palyra vault' with what is typed into it.
func (d *daemon) vault(input string, args ...string) (stdout, stderr string, err error) {
	d.t.Helper()
	cmd := exec.Command(bin(d.t, "palyra"), append([]string{"vault"}, args...)...)
	cmd.Env = append(os.Environ(), "PALYRA_HOME="+d.home)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (d *daemon) mustVault(input string, args ...string) string {
	d.t.Helper()
	out, errs, err := d.vault(input, args...)
	if err != nil {
		d.t.Fatalf("vault %q: %v\n%s%s", args, err, out, errs)
	}
	return out
}

// A secret is kept over a restart and a rotation, is shown to its owner and to nobody else, and is nowhere in the
// daemon's files or log; without the key everything but the secrets goes on.
func TestSecretsAreKept(t *testing.T) {
	const value = "ghp_5uperSecretValueOfThisTest"
	d := newDaemon(t)
	d.mustStart(unlimited...)
	if out := d.mustVault("", "status"); !strings.Contains(out, "empty") || !strings.Contains(out, "key-file") {
		t.Errorf("status:\n%s", out)
	}
	if out := d.mustVault(value+"\n", "put", "github", "--from-stdin"); !strings.Contains(out, "version 1") {
		t.Errorf("put: %s", out)
	}
	d.mustVault(value+" two", "put", "github", "--from-stdin")
	d.mustVault("", "rotate")
	d.stop()
	d.mustStart(unlimited...)
	for args, want := range map[string]string{
		"get github": value + " two\n", "get github --version 1": value + "\n",
	} {
		if out := d.mustVault("", strings.Fields(args)...); out != want {
			t.Errorf("%s: %q", args, out)
		}
	}
	if out := d.mustVault("", "list", "--json"); strings.Contains(out, value) || strings.Count(out, `"github"`) != 2 {
		t.Errorf("list: %s", out)
	}
	for _, args := range []string{
		"get missing", "put short --from-stdin", "put a/b --from-stdin", "get github --version 9", "put x --scope moon --from-stdin",
	} {
		if out, errs, err := d.vault("elevenbytes", strings.Fields(args)...); err == nil || out != "" || !strings.Contains(errs, "palyra: ") {
			t.Errorf("%s: %q %q %v", args, out, errs, err)
		}
	}
	if _, err := d.client(client.AgentDoor).Secrets(t.Context()); err == nil {
		t.Error("an agent is told which secrets there are")
	}
	if _, _, err := d.client(client.AgentDoor).RevealSecret(t.Context(), "global", "github", 0); err == nil {
		t.Error("an agent is shown a secret")
	}
	d.keepsNot(value)
	keys, err := filepath.Glob(filepath.Join(d.home, "keys", "vault-*.key"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	d.stop()
	if err := os.Chmod(keys[0], 0o644); err != nil {
		t.Fatal(err)
	}
	d.mustStart(unlimited...)
	if _, errs, err := d.vault("", "get", "github"); err == nil || !strings.Contains(errs, "chmod 0600") {
		t.Errorf("with an open key: %q %v", errs, err)
	}
	if out := d.mustVault("", "status"); !strings.Contains(out, "locked") {
		t.Errorf("status:\n%s", out)
	}
	if err := os.Chmod(keys[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if out := d.mustVault("", "get", "github"); out != value+" two\n" {
		t.Errorf("with its key again: %q", out)
	}
	d.mustVault("", "delete", "github")
	if _, _, err := d.vault("", "get", "github"); err == nil {
		t.Error("it was removed, and is shown")
	}
}

// keepsNot looks for a text in everything that the daemon keeps.
func (d *daemon) keepsNot(text string) {
	d.t.Helper()
	files := 0
	err := filepath.Walk(d.home, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(path)
		if files++; err == nil && bytes.Contains(raw, []byte(text)) {
			d.t.Errorf("it stands in %s", path)
		}
		return nil
	})
	if err != nil || files < 3 {
		d.t.Errorf("%d files were looked at, %v", files, err)
	}
}
