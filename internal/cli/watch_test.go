//go:build linux

package cli

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

// stream is a command that prints until it is told to stop.
type stream struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func (h *house) stream(args ...string) *stream {
	h.t.Helper()
	s := &stream{t: h.t, cmd: h.command(args...)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	s.lines = bufio.NewScanner(out)
	s.lines.Buffer(nil, 1<<20)
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// until reads lines up to one that holds every text.
func (s *stream) until(texts ...string) string {
	s.t.Helper()
	for s.lines.Scan() {
		found := true
		for _, text := range texts {
			found = found && strings.Contains(s.lines.Text(), text)
		}
		if found {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("the stream ended without %q: %v", texts, s.lines.Err())
	return ""
}

// stop interrupts the command, which must say so by its exit code.
func (s *stream) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	for s.lines.Scan() {
	}
	_ = s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != exit.Cancelled {
		s.t.Errorf("exit %d", code)
	}
}

// Watching shows what is asked and what is answered, as it happens.
func TestWatching(t *testing.T) {
	h := openHouse(t)
	watch := h.stream("approvals", "watch", "--json")
	words := h.stream("approvals", "watch")
	tail := h.stream("journal", "tail", "-f", "--from", "1", "--json")
	tail.until(`"kind":"daemon.started"`)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	if line := watch.until(id); !strings.Contains(line, `"plan_digest":"`+digest+`"`) {
		t.Errorf("no digest: %s", line)
	}
	words.until(id, "pending")
	h.palyra("approvals", "decide", id, "deny", "--reason", "no", "--digest", digest)
	watch.until(id, `"answer":"deny"`)
	words.until(id, "deny")
	tail.until(`"kind":"approval.decided"`, id)
	call.until(`"reason_code":"approval_denied"`)
	_ = call.cmd.Wait()
	if code := call.cmd.ProcessState.ExitCode(); code != exit.Approval {
		t.Errorf("exit %d", code)
	}
	watch.stop()
	words.stop()
	tail.stop()
}

// Whoever watches has a line of their own run when a question waits; a line that fails changes nothing about the question.
func TestWatchingTells(t *testing.T) {
	h := openHouse(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	watch := h.stream("approvals", "watch", "--json", "--notify", "exec >'"+fifo+"'; echo \"$PALYRA_NOTICE_APPROVAL\"; cat; exit 3")
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	told, err := os.ReadFile(fifo) // until the line is done
	if err != nil || !strings.HasPrefix(string(told), id+"\n{") || !strings.Contains(string(told), `"approvals":["`+id+`"]`) {
		t.Errorf("%s, %v", told, err)
	}
	if strings.Contains(string(told), digest) {
		t.Errorf("a notice has what a decision needs: %s", told)
	}
	h.palyra("approvals", "decide", id, "deny", "--digest", digest)
	watch.until(id, `"answer":"deny"`)
	watch.stop()
	_ = call.cmd.Wait()
}

// The shell is offered what there is.
func TestCompletionOfWhatThereIs(t *testing.T) {
	h := openHouse(t)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	for args, want := range map[string]string{
		"approvals show":                   id,
		"approvals decide":                 id,
		"approvals decide " + id:           "deny",
		"tools call":                       "palyra.echo",
		"tools call palyra.echo --session": "01",
		"sessions close":                   "01",
	} {
		out := h.palyra(append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if !strings.Contains("\n"+out, "\n"+want) {
			t.Errorf("%s: no %s in\n%s", args, want, out)
		}
	}
	h.palyra("approvals", "decide", id, "allow", "--scope", "session", "--digest", digest)
	call.until(`"outcome":"finished"`)
	_ = call.cmd.Wait()
	h.palyra("workspace", "add", h.work)
	if out := h.palyra("__complete", "workspace", "remove", ""); !strings.HasPrefix(out, h.work+"\n") {
		t.Errorf("no workspace in\n%s", out)
	}
	if out := h.palyra("__complete", "grants", "revoke", ""); !strings.HasPrefix(out, "01") {
		t.Errorf("no grant in\n%s", out)
	}
}

// A call can be cancelled by an operator.
func TestCallsCancel(t *testing.T) {
	h := openHouse(t)
	call := h.stream("tools", "call", "palyra.sleep", "--input", `{"duration_ms":60000}`, "--json")
	tail := h.stream("journal", "tail", "-f", "--from", "1", "--json", "--kind", "call.granted")
	line := tail.until("call.granted")
	id, err := stagetest.Dig([]byte(line), "call_id")
	if err != nil {
		t.Fatal(err)
	}
	if out := h.palyra("calls", "list", "--state", "running"); !strings.Contains(out, id+"  running ") {
		t.Errorf("what runs is not among what runs: %s", out)
	}
	if out := h.palyra("calls", "cancel", id, "--json"); !strings.Contains(out, id) {
		t.Errorf("%s", out)
	}
	call.until(`"outcome":"cancelled"`)
	_ = call.cmd.Wait()
	if code := call.cmd.ProcessState.ExitCode(); code != exit.Cancelled {
		t.Errorf("exit %d", code)
	}
	if out := h.palyra("calls", "show", id); !strings.Contains(out, "cancelled") {
		t.Errorf("%s", out)
	}
	if out := h.palyra("calls", "list"); !strings.Contains(out, id+"  cancelled ") {
		t.Errorf("how it ended is not said: %s", out)
	}
	tail.stop()
}

// A timeboxed answer ends by itself.
func TestTimeboxEnds(t *testing.T) {
	h := openHouse(t)
	call := h.stream("tools", "call", "palyra.fs.write", "--input", aWrite, "--json")
	id, digest := h.pendingID()
	ended := h.stream("journal", "tail", "-f", "--from", "1", "--json", "--kind", "grant.ended")
	h.palyra("approvals", "decide", id, "allow", "--scope", "timeboxed", "--ttl", "2s", "--digest", digest)
	call.until(`"outcome":"finished"`)
	_ = call.cmd.Wait()
	ended.until(`"why":"expired"`)
	ended.stop()
	again := h.command("tools", "call", "palyra.fs.write", "--input", aWrite, "--json", "--no-wait")
	out, err := again.Output()
	if err == nil || again.ProcessState.ExitCode() != exit.Approval {
		t.Errorf("the grant still covers: %v %s", err, out)
	}
	if out := h.palyra("grants", "list", "--json"); !strings.Contains(out, `"grants":[]`) {
		t.Errorf("still listed: %s", out)
	}
}
