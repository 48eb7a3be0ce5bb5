package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// panes is a server of tmux with screens that people sit at.
type panes struct {
	t      *testing.T
	socket string
	home   string
}

func newPanes(t *testing.T, d *daemon) *panes {
	t.Helper()
	p := &panes{t: t, socket: filepath.Join(t.TempDir(), "tmux"), home: d.home}
	t.Cleanup(func() { _ = p.command("kill-server").Run() })
	return p
}

func (p *panes) command(args ...string) *exec.Cmd {
	c := exec.Command("tmux", append([]string{"-S", p.socket, "-f", "/dev/null"}, args...)...)
	c.Env = append(os.Environ(), "LANG=C.UTF-8", "TERM=xterm-256color", "PALYRA_HOME="+p.home)
	return c
}

func (p *panes) must(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// sit starts the terminal UI on a screen of its own.
func (p *panes) sit(name string, columns, rows int, args ...string) {
	p.t.Helper()
	words := append([]string{bin(p.t, "palyra")}, args...)
	p.must(append([]string{"new-session", "-d", "-s", name, "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows), "--"}, words...)...)
}

// see waits until something is on a screen, and returns the screen.
func (p *panes) see(name, pattern string) string {
	p.t.Helper()
	re, end := regexp.MustCompile(pattern), time.Now().Add(waitMost)
	for {
		page := p.must("capture-pane", "-p", "-t", name)
		if re.MatchString(page) {
			return page
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s never shows %s:\n%s", name, pattern, page)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// press presses keys at once, as a paste would.
func (p *panes) press(name string, keys ...string) {
	p.t.Helper()
	p.must(append([]string{"send-keys", "-t", name}, keys...)...)
}

// write types a word as people do, once the field takes it.
func (p *panes) write(name, word string) {
	p.t.Helper()
	p.see(name, `_\s*\n`)
	for i, r := range []rune(word) {
		p.press(name, string(r))
		p.see(name, fmt.Sprintf(`(%s|•{%d})_`, regexp.QuoteMeta(string([]rune(word)[:i+1])), i+1))
		<-time.After(40 * time.Millisecond)
	}
	p.press(name, "Enter")
}

// read is the time for which a question has to be on the screen, and some more.
func (p *panes) read() { <-time.After(1500 * time.Millisecond) }

// answer opens the field for the question on the screen.
func (p *panes) answer(name string) {
	p.t.Helper()
	p.read()
	p.press(name, "a")
}

// leave goes back to the list. A key right after Esc would be one with Alt.
func (p *panes) leave(name string) {
	p.t.Helper()
	p.press(name, "Escape")
	p.see(name, "Enter: show")
}

// The inbox, from the question to the undo, and back: what is asked appears by itself, is read, allowed by a typed word, and
// taken back; a second screen loses the race; the daemon dies and comes back; a lease is revoked.
func TestTerminalUI(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	p := newPanes(t, d)
	p.sit("one", 100, 30, "tui")
	p.sit("two", 160, 40, "tui")
	p.see("one", "nothing waits for you")
	agent, op := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	ask := func(name string) chan palyra.Outcome {
		done := make(chan palyra.Outcome, 1)
		go func() {
			out, err := agent.Call(t.Context(), write(d.work, name, "hello\n"), nil)
			if err != nil {
				out.Reason = err.Error()
			}
			done <- out
		}()
		p.see("one", `Inbox \(1\)`)
		return done
	}

	first := ask("a.txt")
	p.see("two", `(?s)> .*a\.txt.*\+hello`) // it stands beside the list, with its diff
	p.picture("two", "tui-inbox", 130, 18)
	p.press("one", "Enter")
	p.see("one", `(?s)Approval.*a\.txt.*\+hello`)
	p.read()
	p.press("one", "a", "a", "l", "l", "o", "w", "Enter") // ahead
	p.see("one", "typed ahead|Type allow")
	p.see("one", `_\s*\n`)
	p.press("one", "allow", "Enter") // pasted
	p.see("one", "that was pasted")
	p.must("set-buffer", "allow")
	for _, paste := range [][]string{{"paste-buffer", "-t", "one"}, {"send-keys", "-l", "-t", "one", "allow"}} {
		p.see("one", `_\s*\n`)
		p.must(paste...)
		p.see("one", "that was pasted")
		p.read() // no pause makes it a typed word
		p.press("one", "Enter")
		p.see("one", "nothing is decided by Enter alone")
	}
	select {
	case out := <-first:
		t.Fatalf("it was decided: %+v", out)
	default:
	}
	p.answer("two") // the other one opens the field as well, and is too slow
	p.see("two", `_\s*\n`)
	p.picture("one", "tui-question", 100, 20)
	p.write("one", "allow")
	if out := <-first; out.Outcome != palyra.OutcomeFinished {
		t.Fatalf("%+v", out)
	}
	p.see("two", `somebody was faster: allow by user:`)
	page, err := op.Approvals(t.Context(), client.ApprovalFilter{})
	if err != nil || len(page.Approvals) != 1 || page.Approvals[0].Decision.Method != palyra.MethodTUI {
		t.Errorf("%+v %v", page.Approvals, err)
	}

	second := ask("b.txt")
	p.see("two", `(?m)^> .*b\.txt`)
	p.press("two", "Enter") // what became of the first one stood there
	p.answer("two")
	p.write("two", "deny not today")
	if out := <-second; out.ReasonCode != palyra.ReasonApprovalDenied || !strings.Contains(out.Reason, "not today") {
		t.Errorf("%+v", out)
	}

	p.leave("one")
	p.press("one", "3")
	p.see("one", `kept .*a\.txt`)
	p.picture("one", "tui-changes", 100, 12)
	p.read()
	p.press("one", "u")
	p.write("one", "undo")
	p.see("one", "undone in")
	if exists(filepath.Join(d.work, "a.txt")) {
		t.Error("it was not undone")
	}

	third := ask("c.txt")
	p.press("one", "1")
	p.see("one", `> .*c\.txt`)
	p.press("one", "Enter")
	p.see("one", "Approval")
	p.answer("one")
	p.see("one", `_\s*\n`)
	p.press("one", "Tab") // for the session
	p.write("one", "allow")
	<-third
	p.leave("one")
	p.press("one", "4")
	p.see("one", `> session`)
	p.read()
	p.press("one", "x")
	p.write("one", "revoke")
	p.see("one", "nothing stands allowed")

	d.kill()
	p.see("one", "no daemon")
	d.mustStart()
	p.see("one", `4 Leases\].*connected`)
	p.press("one", "5")
	p.see("one", "daemon.started")
	agent = d.client(client.AgentDoor) // its connection was the other daemon's
	for range 80 {
		_, err := agent.Call(t.Context(), echo("hi"), nil)
		must(t, err)
	}
	p.sit("three", 80, 24, "tui") // which saw nothing of it
	p.see("three", "connected")
	p.press("three", "5")
	p.see("three", `(?s)> \d{3} .*entries \d+ to \d{3} of \d{3}`)
	p.press("three", "End")
	p.see("three", `(?m)^> 1 +\d`) // between the two pieces there is no gap: it is all read
	p.press("three", "Home", "q")
	p.press("one", "6")
	p.see("one", "journal verify")
	p.press("one", "/", "journal", "Enter")
	p.see("one", `(?s)> journal verify.*filter: journal \(1 of \d+\)`)
	p.press("one", "Enter")
	p.see("one", "good: .* entries")
	p.press("one", "q")
	p.press("two", "C-c")
	end := time.Now().Add(waitMost)
	for p.command("has-session", "-t", "one").Run() == nil || p.command("has-session", "-t", "two").Run() == nil ||
		p.command("has-session", "-t", "three").Run() == nil {
		if time.Now().After(end) {
			t.Fatal("they do not end")
		}
		<-time.After(50 * time.Millisecond)
	}
}

// The passphrase of a key is asked for on the screen, for each answer; a wrong one is asked for again, and Esc gives up. While
// it is checked the screen says so and takes no keys, and the memory that the check takes is given back.
func TestTerminalUIAsksForThePassphrase(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	s := atTerminal(t, exec.Command(bin(t, "palyra"), "--home", d.home, "operator", "protect"))
	s.secret("New passphrase")
	s.enter("correct horse battery")
	s.secret("The same again")
	s.enter("correct horse battery")
	if code, out := s.end(); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	p := newPanes(t, d)
	p.sit("one", 100, 30) // palyra alone
	agent := d.client(client.AgentDoor)
	for _, name := range []string{"a.txt", "b.txt"} {
		done := make(chan palyra.Outcome, 1)
		go func() {
			out, _ := agent.Call(t.Context(), write(d.work, name, "hello\n"), nil)
			done <- out
		}()
		p.see("one", `(?m)^> .*`+name)
		p.press("one", "Enter")
		p.see("one", "Approval")
		p.answer("one")
		p.write("one", "allow")
		p.see("one", "Passphrase of the operator key.*\n?")
		p.write("one", "wrong horse")
		p.see("one", "wrong")
		p.write("one", "correct horse battery")
		p.see("one", "checking …")
		p.press("one", "2", "q")
		if out := <-done; out.Outcome != palyra.OutcomeFinished {
			t.Fatalf("%+v", out)
		}
		p.see("one", `(?s)\[1 Inbox\].*allow by user:`)
		if page := p.must("capture-pane", "-p", "-S", "-", "-t", "one"); strings.Contains(page, "horse") {
			t.Errorf("the passphrase is on the screen:\n%s", page)
		}
		p.leave("one")
	}
	status := "/proc/" + strings.TrimSpace(p.must("display-message", "-p", "-t", "one", "#{pane_pid}")) + "/status"
	if most := field(status, "VmHWM"); most < 200<<10 {
		t.Errorf("the check took %.0f KiB: it is not the product's", most)
	}
	for end := time.Now().Add(waitMost); field(status, "VmRSS") > 128<<10; <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%.0f KiB stay", field(status, "VmRSS"))
		}
	}
}

// Lines instead of a screen: the same questions by numbers, and every other command.
func TestTerminalUIPlain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	s := atTerminal(t, exec.Command(bin(t, "palyra"), "--home", d.home, "tui", "--plain"))
	s.find("what waits for you")
	done := make(chan palyra.Outcome, 1)
	go func() {
		out, _ := d.client(client.AgentDoor).Call(t.Context(), write(d.work, "a.txt", "hello\n"), nil)
		done <- out
	}()
	s.find(`1: \w+ risk, agent:local wants: .*a\.txt`)
	s.enter("answer 7 allow")
	s.find("there is no question 7")
	s.enter("answer 1 allow")
	s.find("Type allow to allow once")
	s.enter("allow")
	s.find("1 is settled: allow")
	if out := <-done; out.Outcome != palyra.OutcomeFinished {
		t.Errorf("%+v", out)
	}
	s.enter("changes --workspace " + d.work)
	s.find(`a\.txt`)
	s.enter("quit")
	if code, out := s.end(); code != 0 || strings.Contains(out, "\x1b[") {
		t.Errorf("%d %q", code, out)
	}
}

// Where no daemon is, it says so on the screen that was there before.
func TestTerminalUIWithoutADaemon(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, args := range [][]string{{"tui"}, {"tui", "--plain"}} {
		s := atTerminal(t, exec.Command(bin(t, "palyra"), append([]string{"--home", home}, args...)...))
		s.find(`remedy: palyra .*up --detach`)
		code, out := s.end()
		entered, left := strings.LastIndex(out, "\x1b[?1049h"), strings.LastIndex(out, "\x1b[?1049l")
		if code == 0 || strings.Contains(out, "connected") || left < entered || strings.LastIndex(out, "no daemon listens") < left {
			t.Errorf("%q: %d %q", args, code, out)
		}
		if n := strings.Count(out, "\x1b[?1049h"); n != strings.Count(out, "\x1b[?1049l") {
			t.Errorf("%q: the screen is entered %d times: %q", args, n, out)
		}
	}
}
