//go:build linux

package cli

import (
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
)

// checkInPlace answers calls in place with a key behind a passphrase.
func checkInPlace(t *testing.T, h *house, pass string) {
	t.Helper()
	// Ctrl-C at the passphrase cancels the call, as it does at the question.
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("separation passphrase")
	s.Expect("Type allow")
	s.Send("allow\n")
	s.ExpectSecret("Passphrase of the operator key")
	s.Send("\x03")
	if code := s.End(); code != exit.Cancelled || h.wrote("a.txt") {
		t.Errorf("Ctrl-C: exit %d\n%s", code, s.Seen.String())
	}
	if out := h.palyra("approvals", "list", "--pending", "--json"); !strings.Contains(out, `"approvals":[]`) {
		t.Errorf("the question is still open: %s", out)
	}
	checkGivenUp(t, h, pass)
	// A wrong passphrase, then the right one; the evidence says how the key is kept.
	s = h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	s.Expect("Type allow")
	s.Send("allow\n")
	s.ExpectSecret("Passphrase of the operator key")
	s.Send("\x04") // no passphrase: the question comes back
	s.Expect("no passphrase was typed; the call still waits")
	s.Expect("Type allow")
	s.Send("allow\n")
	s.ExpectSecret("Passphrase of the operator key")
	s.Send("wrong horse battery\n")
	s.Expect("\r\n")
	s.Type("typed too early\n") // while the first is looked at: not shown, and no try
	s.Expect("2 of 3 tries are left")
	s.ExpectSecret("Passphrase of the operator key")
	if strings.Contains(s.Seen.String(), "early") {
		t.Errorf("a passphrase was shown:\n%s", s.Seen.String())
	}
	s.Send(pass + "\n")
	if code := s.End(); code != exit.OK || !h.wrote("a.txt") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	if out := h.palyra("approvals", "list", "--json"); !strings.Contains(out, `"separation":"passphrase"`) {
		t.Errorf("no separation in the record: %s", out)
	}
}

// checkGivenUp leaves the question at the terminal: the call goes on waiting for
// an answer from elsewhere.
func checkGivenUp(t *testing.T, h *house, pass string) {
	t.Helper()
	s := h.at("tools", "call", "palyra.fs.write", "--input", `{"path":"b.txt","content":"x"}`)
	s.Expect("Type allow")
	s.Send("allow\n")
	for range invocation.MaxTries {
		s.ExpectSecret("Passphrase of the operator key")
		s.Send("wrong horse battery\n")
	}
	s.Expect("palyra: not answered here: the passphrase does not open the operator key")
	id, digest := h.pendingID()
	s.Expect("palyra: still waiting until ")
	s.Expect("answer with `palyra approvals decide " + id + " allow`")
	other := h.at("approvals", "decide", id, "allow", "--digest", digest)
	other.Expect("Type allow to allow once")
	other.Send("allow\n")
	other.ExpectSecret("Passphrase of the operator key")
	other.Send(pass + "\n")
	if code := other.End(); code != exit.OK {
		t.Errorf("exit %d\n%s", code, other.Seen.String())
	}
	if code := s.End(); code != exit.OK || !h.wrote("b.txt") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
}

// The end of input is no answer: the question comes back, a few times, and then
// the call waits for an answer from elsewhere.
func TestCallAtTheEndOfInput(t *testing.T) {
	h := openHouse(t)
	s := h.at("tools", "call", "palyra.fs.write", "--input", aWrite)
	for range invocation.MaxTries {
		s.Expect("Type allow")
		s.Send("\x04")
	}
	s.Expect("palyra: still waiting until ")
	id, digest := h.pendingID()
	h.palyra("approvals", "decide", id, "deny", "--digest", digest)
	if code := s.End(); code != exit.Approval || h.wrote("a.txt") {
		t.Fatalf("exit %d\n%s", code, s.Seen.String())
	}
}

// What is typed to a question that ends meanwhile does not reach the shell, and
// what is said then starts a line of its own.
func TestTypedInputStaysHere(t *testing.T) {
	h := openHouse(t)
	s := stagetest.OnTerminal(t, h.work, append(h.env, "TERM=xterm"), "sh", "-c",
		`palyra tools call palyra.fs.write --input '{"path":"a.txt","content":"x"}'; echo "left: $?"; IFS= read -r line; echo "shell got [$line]"`)
	s.Expect("Type allow")
	s.Send("rm -rf half")
	s.Expect("rm -rf half")
	id, digest := h.pendingID()
	h.palyra("approvals", "decide", id, "deny", "--digest", digest)
	s.Expect("\npalyra: " + id + ": deny by ")
	s.Expect("left: 4")
	s.Send("mine\n")
	s.Expect("shell got [mine]")
	s.End()
}

// A scope that the question does not offer is refused before anybody types the word.
func TestDecideForMoreThanIsOffered(t *testing.T) {
	h := openHouse(t)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", `{"path":".envrc","content":"x"}`, "--json")
	id, digest := h.pendingID()
	s := h.at("approvals", "decide", id, "allow", "--scope", "session")
	code, seen := s.End(), s.Seen.String()
	if code != exit.Failure || !strings.Contains(seen, "asked about each time") || strings.Contains(seen, "Type allow") {
		t.Errorf("exit %d\n%s", code, seen)
	}
	h.palyra("approvals", "decide", id, "deny", "--digest", digest)
	call.until(`"reason_code":"approval_denied"`)
	_ = call.cmd.Wait()
}

// A digest does not take the place of the word where there is a person, and must
// be the one of the plan that is shown.
func TestDecideWithADigestOnATerminal(t *testing.T) {
	h := openHouse(t)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	s := h.at("approvals", "decide", id, "allow", "--digest", string(questiontest.SampleDigest))
	if code := s.End(); code != exit.Failure || !strings.Contains(s.Seen.String(), "not about the one of --digest") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	s = h.at("approvals", "decide", id, "allow", "--digest", digest)
	s.Expect("+one⇥   two")
	s.Expect("Type allow to allow once")
	s.Send("no\n")
	if code := s.End(); code == exit.OK || !strings.Contains(s.Seen.String(), "nothing was decided") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	s = h.at("approvals", "decide", id, "allow", "--digest", digest)
	s.Expect("Type allow to allow once")
	s.Send("allow\n")
	if code := s.End(); code != exit.OK {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
	call.until(`"outcome":"finished"`)
	_ = call.cmd.Wait()
}

// Whoever waits without a terminal is told that a person answers, and not what to type:
// it may be the agent that asked.
func TestHintOfAWaitingCall(t *testing.T) {
	h := openHouse(t)
	cmd := h.command("tools", "call", "palyra.fs.write", "--input", aWrite)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, digest := h.pendingID()
	h.palyra("approvals", "decide", id, "allow", "--digest", digest)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := said.String(); !strings.Contains(got, "waiting for a person to answer "+id+" in Palyra: ") ||
		strings.Contains(got, "allow by") || strings.Contains(got, "palyra approvals") || strings.Contains(got, "--digest") {
		t.Error(got)
	}
}
