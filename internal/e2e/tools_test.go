//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// The doctor runs what a workspace's files call for inside, names what fails there and why, and sees what a profile adds.
func TestDoctorTriesTools(t *testing.T) {
	t.Parallel()
	tools := filepath.Join(t.TempDir(), "bin")
	d := newDaemon(t)
	d.mustStart()
	file := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file(d.work+"/Cargo.toml", "")
	file(d.work+"/Makefile", "")
	file(tools+"/cargo", "#!/bin/sh\necho cargo 9.9.9\n")
	run := func(args ...string) (string, int) {
		cmd := d.palyra(args...)
		cmd.Env = append(cmd.Env, "PATH=/usr/bin:/bin:"+tools)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run("sandbox", "doctor", "--tools"); code != 1 || !strings.Contains(out, "workspace add "+d.work) {
		t.Errorf("in a directory that is not registered: %d %s", code, out)
	}
	if all, err := d.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{}); err != nil || len(all.Approvals) != 0 {
		t.Errorf("it asked: %v %v", all.Approvals, err)
	}
	if out, code := run("workspace", "add", d.work); code != 0 {
		t.Fatal(out)
	}
	out, code := run("sandbox", "doctor", "--tools")
	for _, want := range []string{"cargo    FAILS   Cargo.toml", "make     works   Makefile", "GNU Make", tools + "/cargo", "palyra setup"} {
		if !strings.Contains(out, want) || code != 1 {
			t.Errorf("%d: %q is not in\n%s", code, want, out)
		}
	}
	file(d.home+"/profiles/toolchains.toml", fmt.Sprintf("path = [%q]\n[[mounts]]\nsource = %[1]q\n", tools))
	if err := os.Chmod(d.home+"/profiles/toolchains.toml", 0o600); err != nil {
		t.Fatal(err)
	}
	person := d.client(client.OperatorDoor)
	if out, code = run("sandbox", "doctor", "--tools"); code != 1 || !strings.Contains(out, "needs an approval") {
		t.Errorf("%d: %s", code, out)
	}
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if out, code = run("sandbox", "doctor", "--tools", "--json"); code != 0 || !strings.Contains(out, `"version":"cargo 9.9.9"`) {
		t.Errorf("%d: %s", code, out)
	}
	out, code = run("sandbox", "doctor", "--tools", "--workspace", tools+"/none")
	if code == 0 || !strings.Contains(out, "not an existing directory") {
		t.Errorf("a workspace that is not there: %s", out)
	}
}
