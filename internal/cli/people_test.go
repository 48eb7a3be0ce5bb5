//go:build linux

package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/stagetest"
)

// house is a home with a running daemon and a directory to work in.
type house struct {
	t          *testing.T
	home, work string
	env        []string
}

func openHouse(t *testing.T) *house {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, home: filepath.Join(dir, "home"), work: filepath.Join(dir, "work")}
	h.env = []string{"PALYRA_HOME=" + h.home, "NO_COLOR=1", "PALYRA_CONSOLE_LISTEN=127.0.0.1:0", "PALYRA_POLICY_PRESET=ask"}
	t.Cleanup(func() {
		endDaemon(h.home)
		_ = os.RemoveAll(dir)
	})
	for _, d := range []string{h.home, h.work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.palyra("up", "--detach")
	return h
}

// command is a command in the house's directory.
func (h *house) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), "palyra", args...)
	cmd.Env, cmd.Dir = append(os.Environ(), h.env...), h.work
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal, whoever runs the tests
	return cmd
}

// palyra runs a command that must work, and returns its stdout.
func (h *house) palyra(args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).Output()
	if err != nil {
		var said string
		if exit, ok := err.(*exec.ExitError); ok {
			said = string(exit.Stderr)
		}
		h.t.Fatalf("palyra %s: %v\n%s%s", strings.Join(args, " "), err, out, said)
	}
	return string(out)
}

// at starts palyra at a terminal.
func (h *house) at(args ...string) *stagetest.AtTerminal {
	h.t.Helper()
	return stagetest.OnTerminal(h.t, h.work, append(h.env, "TERM=xterm"), "palyra", args...)
}

const aWrite = `{"path":"a.txt","content":"one\ttwo\n"}`

// pendingID waits until one approval is pending.
func (h *house) pendingID() (id, digest string) {
	h.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(stagetest.Patience)
	for {
		out := []byte(h.palyra("approvals", "list", "--pending", "--json"))
		if n, err := stagetest.Dig(out, "approvals.len"); err == nil && n == "1" {
			id, _ = stagetest.Dig(out, "approvals.0.approval_id")
			digest, _ = stagetest.Dig(out, "approvals.0.plan_digest")
			return id, digest
		}
		select {
		case <-tick.C:
		case <-deadline:
			h.t.Fatalf("no pending approval: %s", out)
		}
	}
}

func (h *house) wrote(name string) bool {
	_, err := os.Stat(filepath.Join(h.work, name))
	return err == nil
}

// The person at the terminal sees the whole plan and answers in place.
func TestCallAsksInPlace(t *testing.T) {
	h := openHouse(t)
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("Type allow to allow once, allow-edits or deny")
	for _, want := range []string{"NEW workspace", "+one⇥   two", "allow-edits: any edit of files in ", "--full"} {
		if !strings.Contains(s.Seen.String(), want) {
			t.Errorf("no %q on the screen:\n%s", want, s.Seen.String())
		}
	}
	if strings.Contains(s.Seen.String(), "palyra approvals decide ") {
		t.Errorf("commands for elsewhere before the question:\n%s", s.Seen.String())
	}
	// No default, no other word approves.
	for _, word := range []string{"", "y", "yes", "ALLOW", "allow it", "\x1b[A"} {
		s.Send(word + "\n")
		s.Expect("is neither allow nor deny; the call still waits")
		s.Expect("Type allow to allow once")
	}
	if h.wrote("a.txt") {
		t.Fatal("it ran without an answer")
	}
	s.Send("allow\n")
	if code := s.End(); code != exit.OK || !h.wrote("a.txt") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	if !strings.Contains(s.Seen.String(), "palyra: finished, call ") {
		t.Errorf("no ending:\n%s", s.Seen.String())
	}
}

func TestCallDeniedInPlace(t *testing.T) {
	h := openHouse(t)
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("Type allow")
	s.Send("deny\n")
	if code := s.End(); code != exit.Approval || h.wrote("a.txt") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

// An answer from elsewhere ends the question here.
func TestCallAnsweredElsewhere(t *testing.T) {
	h := openHouse(t)
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("Type allow")
	id, digest := h.pendingID()
	h.palyra("approvals", "decide", id, "allow", "--digest", digest)
	if code := s.End(); code != exit.OK || !h.wrote("a.txt") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

func TestCallCancelledInPlace(t *testing.T) {
	h := openHouse(t)
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("Type allow")
	s.Send("\x03")
	if code := s.End(); code != exit.Cancelled || h.wrote("a.txt") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	if out := h.palyra("approvals", "list", "--pending", "--json"); !strings.Contains(out, `"approvals":[]`) {
		t.Errorf("the question is still open: %s", out)
	}
}

// decide shows the plan and takes the word; anything else leaves it open.
func TestDecideOnATerminal(t *testing.T) {
	h := openHouse(t)
	call := h.command("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	if err := call.Start(); err != nil {
		t.Fatal(err)
	}
	id, _ := h.pendingID()
	s := h.at("approvals", "decide", id, "allow", "--scope", "timeboxed", "--ttl", "30m")
	s.Expect("Type allow to allow for 30m0s")
	if !strings.Contains(s.Seen.String(), "+one⇥   two") {
		t.Errorf("no diff:\n%s", s.Seen.String())
	}
	s.Send("deny\n")
	if code := s.End(); code == exit.OK || !strings.Contains(s.Seen.String(), "nothing was decided") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	h.pendingID()
	s = h.at("approvals", "decide", id, "allow", "--scope", "timeboxed", "--ttl", "30m")
	s.Expect("Type allow")
	s.Send("allow\n")
	if code := s.End(); code != exit.OK || !strings.Contains(s.Seen.String(), "allow, scope timeboxed, lease ") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	if err := call.Wait(); err != nil || !h.wrote("a.txt") {
		t.Fatal(err)
	}
	s = h.at("approvals", "decide", id, "allow")
	if code := s.End(); code != exit.Failure || !strings.Contains(s.Seen.String(), "already decided") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

func TestProtect(t *testing.T) {
	h := openHouse(t)
	old := ownKeyOf(t, h)
	const pass = "correct horse battery"

	s := h.at("operator", "protect")
	s.ExpectSecret("New passphrase")
	s.Send("short\n")
	if code := s.End(); code != exit.Failure || !strings.Contains(s.Seen.String(), "nothing was changed") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	s = h.at("operator", "protect")
	s.ExpectSecret("New passphrase")
	s.Send(pass + "\n")
	s.ExpectSecret("The same again: ")
	s.Send("correct horse batterY\n")
	if code := s.End(); code != exit.Failure || !strings.Contains(s.Seen.String(), "differ") || ownKeyOf(t, h) != old {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}

	s = h.at("operator", "protect")
	s.ExpectSecret("New passphrase")
	s.Send(pass + "\n")
	s.ExpectSecret("The same again: ")
	s.Send(pass + "\n")
	s.Expect("in force, behind your passphrase")
	if code := s.End(); code != exit.OK || strings.Contains(s.Seen.String(), pass) {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	fresh := ownKeyOf(t, h)
	if fresh.KeyID == old.KeyID || fresh.Separation != "passphrase" {
		t.Fatalf("%+v", fresh)
	}
	if _, err := os.Stat(fresh.Path + ".new"); err == nil {
		t.Error("the new key's first file is still there")
	}
	checkOperators(t, h, old.KeyID, fresh.KeyID)
	cheapen(t, fresh.Path, pass)
	checkProtected(t, h, pass)
	s = h.at("operator", "protect")
	if code := s.End(); code != exit.Failure || !strings.Contains(s.Seen.String(), "already behind a passphrase") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	checkInPlace(t, h, pass)
	checkStop(t, h)
}

// cheapen puts a key behind the same passphrase again, so that a guess costs nothing. What
// a guess costs is in the file, and the test makes a dozen.
func cheapen(t *testing.T, path, pass string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	must(err)
	var key map[string]any
	must(json.Unmarshal(raw, &key))
	sealed, err := base64.StdEncoding.DecodeString(key["protected"].(string))
	must(err)
	from, err := age.NewScryptIdentity(pass)
	must(err)
	seed, err := age.Decrypt(bytes.NewReader(sealed), from)
	must(err)
	to, err := age.NewScryptRecipient(pass)
	must(err)
	to.SetWorkFactor(10)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	must(err)
	_, err = io.Copy(w, seed)
	must(errors.Join(err, w.Close()))
	key["protected"] = base64.StdEncoding.EncodeToString(out.Bytes())
	raw, err = json.Marshal(key)
	must(errors.Join(err, os.WriteFile(path, raw, 0o600)))
}

// checkStop stops a daemon whose key is behind a passphrase: a wrong one, or none, is
// the mistake of whoever typed and stops nothing; where nobody can be asked, the
// daemon's own user still can.
func checkStop(t *testing.T, h *house) {
	t.Helper()
	s := h.at("down")
	for range invocation.MaxTries {
		s.ExpectSecret("Passphrase of the operator key")
		s.Send("wrong horse battery\n")
	}
	if code := s.End(); code != exit.Unauthorised || strings.Contains(s.Seen.String(), "SIGTERM") ||
		!strings.Contains(s.Seen.String(), "kill -TERM ") {
		t.Errorf("a wrong passphrase: exit %d\n%s", code, s.Seen.String())
	}
	s = h.at("down")
	s.ExpectSecret("Passphrase of the operator key")
	s.Send("\x04")
	if code := s.End(); code == exit.OK || strings.Contains(s.Seen.String(), "SIGTERM") {
		t.Errorf("no passphrase: exit %d\n%s", code, s.Seen.String())
	}
	h.palyra("status") // it serves
	out, err := h.command("down").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sent SIGTERM to pid") || !strings.Contains(string(out), "has stopped") {
		t.Errorf("without a terminal: %v %s", err, out)
	}
}

// A file that an earlier, broken attempt left makes room.
func TestProtectAfterABrokenAttempt(t *testing.T) {
	h := openHouse(t)
	if err := os.WriteFile(filepath.Join(h.home, "operator.key.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := h.at("operator", "protect")
	s.ExpectSecret("New passphrase")
	s.Send("correct horse battery\n")
	s.ExpectSecret("The same again: ")
	s.Send("correct horse battery\n")
	if code := s.End(); code != exit.OK {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

// A person who goes away at the question changes nothing.
func TestProtectGivenUp(t *testing.T) {
	h := openHouse(t)
	old := ownKeyOf(t, h)
	s := h.at("operator", "protect")
	s.ExpectSecret("New passphrase")
	s.Send("\x04")
	if code := s.End(); code == exit.OK || ownKeyOf(t, h) != old {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

// checkOperators looks at the daemon's side: the old key is ended, the new one
// an owner's, behind a passphrase.
func checkOperators(t *testing.T, h *house, old, fresh string) {
	t.Helper()
	var list struct {
		Operators []struct {
			KeyID      string `json:"key_id"`
			Role       string `json:"role"`
			Separation string `json:"approver_separation"`
			RemovedAt  string `json:"removed_at"`
		} `json:"operators"`
	}
	if err := json.Unmarshal([]byte(h.palyra("operator", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Operators {
		switch o.KeyID {
		case old:
			if o.RemovedAt == "" {
				t.Error("the old key is still in force")
			}
		case fresh:
			if o.RemovedAt != "" || o.Role != "owner" || o.Separation != "passphrase" {
				t.Errorf("the new key: %+v", o)
			}
		}
	}
	if len(list.Operators) != 2 {
		t.Errorf("%d keys", len(list.Operators))
	}
}

// checkProtected signs with the protected key: only with the passphrase, only
// at a terminal.
func checkProtected(t *testing.T, h *house, pass string) {
	t.Helper()
	s := h.at("workspace", "add", h.work)
	for range invocation.MaxTries {
		s.ExpectSecret("Passphrase of the operator key")
		s.Send("wrong horse battery\n")
	}
	if code := s.End(); code != exit.Unauthorised {
		t.Errorf("a wrong passphrase: exit %d\n%s", code, s.Seen.String())
	}
	s = h.at("workspace", "add", h.work)
	s.ExpectSecret("Passphrase of the operator key")
	s.Send(pass + "\n")
	if code := s.End(); code != exit.OK {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	cmd := h.command("workspace", "remove", h.work)
	cmd.Stdin = strings.NewReader(pass + "\n")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out),
		"is behind a passphrase, and there is no terminal to ask on") {
		t.Errorf("without a terminal: %v %s", err, out)
	}
}

// keyShown is what `palyra operator show` says.
type keyShown struct {
	Path       string            `json:"path"`
	KeyID      string            `json:"key_id"`
	PublicKey  string            `json:"public_key"`
	Separation palyra.Separation `json:"approver_separation"`
}

func ownKeyOf(t *testing.T, h *house) keyShown {
	t.Helper()
	var k keyShown
	if err := json.Unmarshal([]byte(h.palyra("operator", "show", "--json")), &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// Without --detach the daemon ends with the command, in good order.
func TestUpInTheForeground(t *testing.T) {
	h := openHouse(t)
	h.palyra("down")
	s := h.at("up")
	s.Expect("palyra is up: pid ")
	s.Expect("palyra approvals watch")
	h.palyra("status")
	s.Send("\x03")
	if code := s.End(); code != exit.OK {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
	if code, _, err := playIn(t, h.home, "status"); code != exit.NoDaemon {
		t.Errorf("still up: %d %s", code, err)
	}
	h.palyra("up", "--detach")
	if out := h.palyra("journal", "tail", "--kind", "daemon.stopped", "--json"); strings.Count(out, "\n") != 2 {
		t.Errorf("not stopped in good order twice:\n%s", out)
	}
}
