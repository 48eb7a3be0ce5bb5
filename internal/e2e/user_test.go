//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
)

// A daemon of an ordinary user, driven by that user's command: the same story as
// root's. Where the tests are an ordinary user's themselves, all of them are
// this test.
func TestAnOrdinaryUsersDaemon(t *testing.T) {
	t.Run("tier b", func(t *testing.T) { ordinaryDaemon(t, "b", "sandbox_tier_b") })
	t.Run("tier c", func(t *testing.T) { ordinaryDaemon(t, "c", "sandbox_tier_c_linux_bubblewrap") })
}

func ordinaryDaemon(t *testing.T, tier, executor string) {
	if os.Geteuid() != 0 {
		t.Log("the tests run as an ordinary user: every other one shows it")
	}
	d := newDaemon(t)
	as := d.ordinary()
	run := as("palyra", "exec", "--json", "--tier", tier, "--", "/bin/sh", "-c",
		"id -u; id -G; env; touch mine; cat /proc/1/environ; kill -0 $PPID && echo signalled")
	var stdout bytes.Buffer
	run.Stdout = &stdout
	stderr, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stderr).ReadString('\n')
	var event struct {
		Approval palyra.ApprovalID `json:"approval_id"`
		Plan     palyra.Digest     `json:"plan_digest"`
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if out, err := as("palyra", "approvals", "decide", string(event.Approval), "allow", "--digest", string(event.Plan)).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_ = run.Wait()
	var out palyra.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	first, _, _ := strings.Cut(out.Stdout, "\n")
	if first == "" || first == "0" || strings.Contains(out.Stdout, "secret-of-the-daemon") || strings.Contains(out.Stdout, "signalled") {
		t.Errorf("inside: %s\n%s", out.Stdout, out.Stderr)
	}
	if _, err := os.Lstat(filepath.Join(d.work, "mine")); err != nil {
		t.Error(err)
	}
	p := predicate(t, out)
	if p.Executor != executor || !slices.Contains(p.Enforcement.Mechanisms, "seccomp") {
		t.Errorf("attested %+v", p.Enforcement)
	}
	if os.Geteuid() == 0 && p.Enforcement.Limits["memory"] != "polled" && p.Enforcement.Limits["memory"] != "cgroup" {
		t.Errorf("memory is %q", p.Enforcement.Limits["memory"])
	}
}

// ordinary starts the daemon as an ordinary user, who owns all that is there by
// then, and returns how that user runs a program.
func (d *daemon) ordinary(env ...string) (as func(name string, args ...string) *exec.Cmd) {
	d.t.Helper()
	owner := d.ownWork()
	err := filepath.WalkDir(d.home, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner, owner))
	})
	if err != nil {
		d.t.Fatal(err)
	}
	as = func(name string, args ...string) *exec.Cmd {
		if !filepath.IsAbs(name) {
			name = bin(d.t, name)
		}
		cmd := exec.Command(name, args...)
		cmd.Env = append([]string{
			"PALYRA_HOME=" + d.home, "PATH=/usr/bin:/bin", "HOME=" + d.home, "USER=someone",
			"PLANTED=secret-of-the-daemon",
		}, anyPort...)
		cmd.Env = append(cmd.Env, env...)
		cmd.Dir = d.work
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(owner), Gid: uint32(owner)}}
		}
		return cmd
	}
	cmd := as("palyrad")
	d.log = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for end := time.Now().Add(waitMost); as("palyra", "status").Run() != nil; {
		if time.Now().After(end) {
			d.t.Fatalf("it does not serve:\n%s", d.log)
		}
		<-time.After(20 * time.Millisecond)
	}
	return as
}
