//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
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

// encodings are the ways in which a value could stand somewhere: as it is, in hex, and in base64 at each of its three
// positions, without what its neighbours decide.
func encodings(value string) map[string]string {
	all := map[string]string{
		"as it is": value, "in hex": hex.EncodeToString([]byte(value)), "in HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
	}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + value))
		all[fmt.Sprintf("in base64, at %d", shift)] = text[4*((shift+2)/3) : len(text)-4]
	}
	return all
}

// keepsNot looks for a value in everything that the daemon keeps, and in its journal. Then it stops the daemon and looks
// for the value in what that said.
func (d *daemon) keepsNot(value string) {
	d.t.Helper()
	var journal bytes.Buffer
	if err := d.client(client.OperatorDoor).ExportJournal(d.t.Context(), 1, 0, &journal); err != nil || journal.Len() == 0 {
		d.t.Fatal(err)
	}
	places := map[string][]byte{"the journal's export": journal.Bytes()}
	err := filepath.Walk(d.home, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		raw, err := os.ReadFile(path)
		places[path] = raw
		return err
	})
	d.stop()
	places["the log"] = d.log.Bytes()
	if err != nil || len(places) < 5 {
		d.t.Errorf("%d places were looked at, %v", len(places), err)
	}
	for place, raw := range places {
		for how, text := range encodings(value) {
			if bytes.Contains(raw, []byte(text)) {
				d.t.Errorf("it stands in %s, %s", place, how)
			}
		}
	}
}
