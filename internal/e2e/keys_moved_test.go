//go:build linux

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// places is in which places the daemon's keys are.
func (d *daemon) places() map[palyra.KeyUse]client.KeyPlace {
	d.t.Helper()
	all, err := d.client(client.OperatorDoor).KeyPlaces(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	out := map[palyra.KeyUse]client.KeyPlace{}
	for _, p := range all {
		out[p.Use] = p
	}
	return out
}

// pushContact has browsers told while they are closed, so that there is a key for that.
const pushContact = "PALYRA_CONSOLE_PUSH=mailto:me@example.com"

// pushKey is the key by which push services know the daemon, as its file has it.
func (d *daemon) pushKey() string {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join(d.home, "keys", "push.key"))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(raw)
}

// privateFiles are the files of the daemon's own signing keys.
func (d *daemon) privateFiles() (names []string) {
	for _, name := range []string{"journal.key", "attestation.key", "ca.key", "push.key"} {
		if _, err := os.Lstat(filepath.Join(d.home, "keys", name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// attested makes a call and holds that its attestation verifies without the daemon.
func (d *daemon) attested(text string) {
	d.t.Helper()
	out, err := d.client(client.AgentDoor).Call(d.t.Context(), echo(text), nil)
	if err != nil || out.Attestation == nil {
		d.t.Fatalf("%+v, %v\n%s", out, err, d.log)
	}
	raw, err := out.Marshal()
	if err != nil {
		d.t.Fatal(err)
	}
	trust, err := d.client(client.OperatorDoor).ExportKeys(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	dir := d.t.TempDir()
	for name, text := range map[string][]byte{"outcome": raw, "trust": trust} {
		d.write(filepath.Join(dir, name), string(text), 0o600)
	}
	said, err := exec.Command(bin(d.t, "palyra-verify"), "--key", filepath.Join(dir, "trust"), filepath.Join(dir, "outcome")).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, said)
	}
}

// An operator moves the daemon's keys into the vault and back. While the vault is locked the daemon starts, stops, records
// and verifies, and refuses calls with what to do; nothing else changes, and what was attested before still verifies.
func TestTheDaemonsKeysInTheVault(t *testing.T) {
	t.Parallel()
	const words = "correct horse battery"
	d, m := newDaemon(t), newElsewhere(t)
	remote := "PALYRA_REMOTE_LISTEN=" + freePort(t)
	d.mustStart(remote, pushContact)
	if err := d.pairing(t.Context(), m, "laptop", "", ""); err != nil {
		t.Fatal(err)
	}
	far := func() error {
		_, err := m.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{})
		return err
	}
	d.attested("before")
	before, err := os.ReadFile(filepath.Join(d.home, "keys", "attestation.key"))
	if err != nil {
		t.Fatal(err)
	}
	if out := d.works("keys", "where"); strings.Count(out, "a file of the daemon's user") != 4 {
		t.Errorf("where:\n%s", out)
	}
	if out := d.works("keys", "move", "vault"); strings.Count(out, "the vault") != 3 {
		t.Errorf("moved:\n%s", out)
	}
	if got := d.privateFiles(); !slices.Equal(got, []string{"journal.key"}) {
		t.Errorf("files that are left: %v", got)
	}
	for _, e := range d.lines("vault.changed") {
		if by, _ := e["by"].(string); e["scope"] == "daemon" && strings.HasPrefix(by, "system:") {
			t.Errorf("it is not on record who moved them: %v", e)
		}
	}
	d.attested("moved")
	d.works("keys", "rotate", "attestation")
	d.works("keys", "rotate", "ca")
	if err := d.client(client.OperatorDoor).RotateVault(t.Context(), "passphrase", palyra.NewSecret([]byte(words))); err != nil {
		t.Fatal(err)
	}
	d.attested("rotated")
	d.stop()
	d.mustStart(remote, pushContact) // it starts locked
	for _, r := range []client.CallRequest{echo("locked"), write(d.work, "f", "x")} {
		out, err := d.client(client.AgentDoor).Call(t.Context(), r, nil)
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonVaultLocked ||
			!strings.Contains(out.Remedy, "palyra vault unlock") {
			t.Errorf("a call: %+v, %v", out, err)
		}
	}
	if p := d.places(); p[palyra.KeyAttestation].Locked == "" ||
		p[palyra.KeyCA].Remedy == "" || p[palyra.KeyPush].Locked == "" || p[palyra.KeyJournal].Locked != "" {
		t.Errorf("%+v", p)
	}
	if out := d.works("status"); !strings.Contains(out, "calls are refused") || !strings.Contains(out, "no device comes in") {
		t.Errorf("status:\n%s", out)
	}
	if far() == nil {
		t.Error("a device comes in")
	}
	d.works("keys", "list")
	d.works("keys", "rotate", "journal")
	d.works("journal", "verify")
	d.stop()
	d.mustStart(remote, pushContact)
	if err := d.client(client.OperatorDoor).UnlockVault(t.Context(), palyra.NewSecret([]byte(words))); err != nil {
		t.Fatal(err)
	}
	d.attested("unlocked")
	if err := far(); err != nil {
		t.Errorf("the device: %v", err)
	}
	d.mustVault("", "lock") // this daemon has the key, and goes on
	d.attested("locked again")
	if err := d.client(client.OperatorDoor).UnlockVault(t.Context(), palyra.NewSecret([]byte(words))); err != nil {
		t.Fatal(err)
	}
	d.works("keys", "move", "files")
	if got := d.privateFiles(); len(got) != 4 {
		t.Errorf("files: %v", got)
	}
	if now, err := os.ReadFile(filepath.Join(d.home, "keys", "attestation.key")); err != nil || string(now) == string(before) {
		t.Errorf("the file is that of before the rotation: %v", err)
	}
	d.stop()
	d.mustStart(remote, pushContact) // locked, and nothing needs it
	d.attested("back")
	if err := far(); err != nil {
		t.Errorf("the device: %v", err)
	}
	d.verify()
}

// moves is what is done to the keys: there, anew, and back.
func moves(ctx context.Context, d *daemon) error {
	person := d.client(client.OperatorDoor)
	for _, step := range []func() error{
		func() error { _, err := person.MoveKeys(ctx, "vault"); return err },
		func() error { _, err := person.RotateKey(ctx, palyra.KeyAttestation); return err },
		func() error { _, err := person.RotateKey(ctx, palyra.KeyCA); return err },
		func() error { _, err := person.MoveKeys(ctx, "files"); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// A daemon that is killed at any step of that starts again with every key, attests, verifies, and moves them either way.
func TestKillAtEveryStepOfMovingKeys(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "points")
	whole := newDaemon(t)
	whole.mustStart(pushContact)
	whole.stop()
	whole.mustStart("PALYRA_FAULT_LOG="+log, pushContact)
	if err := moves(t.Context(), whole); err != nil {
		t.Fatalf("%v\n%s", err, whole.log)
	}
	whole.stop()
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(raw))
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(p string) bool {
		return !strings.HasPrefix(p, "key.") && !strings.HasPrefix(p, "ca.") && !strings.HasPrefix(p, "push.") && !strings.HasPrefix(p, "vault.")
	})
	if len(all) < 12 || !slices.Contains(all, "push.copied/kept") || !slices.Contains(all, "push.unfiled/lost") {
		t.Fatalf("only %d points: %v", len(all), all)
	}
	t.Logf("points: %v", all)
	for _, point := range sample(all) {
		t.Run(strings.ReplaceAll(point, "/", "_"), func(t *testing.T) {
			t.Parallel()
			d := newDaemon(t)
			d.mustStart(pushContact)
			d.attested("before")
			known := d.pushKey()
			d.stop()
			if d.start("PALYRA_FAULT="+point, pushContact) {
				ctx, cancel := context.WithTimeout(t.Context(), waitMost)
				defer cancel()
				if err := moves(ctx, d); err == nil {
					t.Fatalf("the daemon outlived %s", point)
				}
			}
			<-d.done
			d.mustStart(pushContact)
			d.verify()
			for use, p := range d.places() {
				if p.Locked != "" {
					t.Errorf("%s: %+v", use, p)
				}
			}
			d.attested("after")
			for _, to := range []string{"vault", "files"} {
				files := map[string]int{"vault": 1, "files": 4}[to]
				if _, err := d.client(client.OperatorDoor).MoveKeys(t.Context(), to); err != nil || len(d.privateFiles()) != files {
					t.Fatalf("to %s: %v; files %v", to, err, d.privateFiles())
				}
				d.attested(to)
			}
			if d.pushKey() != known {
				t.Error("push services know another key")
			}
			d.stop()
		})
	}
}
