package notify

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/sessionbus"
)

func asked(id, summary string, risk palyra.RiskLevel) palyra.Approval {
	p := palyra.Approval{ID: palyra.ApprovalID(id), Principal: "agent:local"}
	p.Prompt.Summary, p.Prompt.Risk.Level = summary, risk
	return p
}

func settled(p palyra.Approval) palyra.Approval {
	p.Decision = palyra.Decision{Answer: palyra.AnswerDeny}
	return p
}

// told keeps what it is told.
type told struct {
	hold chan struct{} // nil: it does not wait
	next chan Notice
}

func (w *told) Tell(ctx context.Context, n Notice) error {
	w.next <- n
	if w.hold != nil {
		select {
		case <-w.hold:
		case <-ctx.Done():
		}
	}
	return nil
}

func running(t *testing.T, n *Notifier) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { n.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
}

// A question is told once; those that come while a notice is on its way are told together, without what was answered.
func TestQuestionsAreToldTogether(t *testing.T) {
	w := &told{hold: make(chan struct{}), next: make(chan Notice, 8)}
	n := New(os.Stderr, w)
	running(t, n)
	one := asked("01A", "run make", palyra.RiskLow)
	n.Hear(one)
	first := <-w.next
	alone := Notice{Text: "agent:local asks (low): run make", Count: 1, Asker: "agent:local", Risk: "low", All: []palyra.ApprovalID{"01A"}}
	if !cmp.Equal(first, alone) {
		t.Errorf("%+v", first)
	}
	n.Hear(one) // the same once more, as after a new connection
	gone := asked("01B", "run b", palyra.RiskCritical)
	n.Hear(gone)
	n.Hear(asked("01C", "run c", palyra.RiskHigh))
	n.Hear(asked("01D", "run d", palyra.RiskLow))
	n.Hear(settled(gone))
	close(w.hold)
	second := <-w.next
	want := Notice{
		Text: "2 questions wait for an answer, the riskiest is high", Count: 2, Risk: "high", All: []palyra.ApprovalID{"01C", "01D"},
	}
	if !cmp.Equal(second, want) {
		t.Errorf("%+v", second)
	}
	select {
	case more := <-w.next:
		t.Errorf("told again: %+v", more)
	case <-time.After(50 * time.Millisecond):
	}
}

// What an agent wrote reaches a command as data, whole words of a shell or not, and shown with marks.
func TestCommandIsHandedData(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	hostile := "run $(touch /tmp/x) `id` '; id; \x1b[31m\u202e\x00\xff -n\nid"
	c := Command{
		Line: `exec >'` + out + `'; printf '%s\n' "$PALYRA_NOTICE" "$PALYRA_NOTICE_COUNT" "$PALYRA_NOTICE_RISK" "$PALYRA_NOTICE_APPROVAL"; cat`,
		Env:  os.Environ(),
	}
	if err := c.Tell(t.Context(), noticeOf([]palyra.Approval{asked("01A", hostile, palyra.RiskHigh)})); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "agent:local asks (high): run $(touch /tmp/x) `id` '; id; ") || lines[1] != "1" ||
		lines[2] != "high" || lines[3] != "01A" || !strings.HasPrefix(lines[4], `{"text":"agent:local asks (high): run $(touch`) {
		t.Errorf("%q", lines)
	}
	for _, r := range string(b) {
		if r != '\n' && (r < ' ' || r == '\u202e') {
			t.Errorf("%q is not shown by a mark: %q", r, b)
		}
	}
	long := noticeOf([]palyra.Approval{asked("01A", strings.Repeat("ä", 100_000), palyra.RiskHigh)})
	if n := len([]rune(long.Text)); n > maxText+100 {
		t.Errorf("a notice of %d letters", n)
	}
}

// A command that fails is said once; one that hangs is ended with what it started.
func TestCommandThatFails(t *testing.T) {
	var said lines
	n := New(&said, Command{Line: "head -c 100000 /dev/zero | tr '\\0' x; echo; exit 3", Env: os.Environ()})
	running(t, n)
	n.Hear(asked("01A", "a", palyra.RiskLow))
	first := said.next(t)
	if !strings.HasPrefix(first, "palyra: a notice could not be given: ") || !strings.Contains(first, "exit status 3") || len(first) > 3000 {
		t.Errorf("%.300q", first)
	}
	n.Hear(asked("01B", "b", palyra.RiskLow))
	said.none(t)
}

func TestCommandThatHangs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Command{Line: "exec >'" + fifo + "'; echo on; sleep 600 & wait", Env: os.Environ()}.Tell(ctx, Notice{})
	}()
	held, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	on := make([]byte, 3)
	if _, err := io.ReadFull(held, on); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it says that it told")
	}
	if rest, err := io.ReadAll(held); err != nil || len(rest) > 0 { // ends when nobody has the other end any more
		t.Errorf("%q, %v", rest, err)
	}
}

// lines is a writer whose writes are read.
type lines struct {
	once sync.Once
	c    chan string
}

func (l *lines) channel() chan string {
	l.once.Do(func() { l.c = make(chan string, 16) })
	return l.c
}

func (l *lines) Write(p []byte) (int, error) {
	l.channel() <- string(p)
	return len(p), nil
}

func (l *lines) next(t *testing.T) string {
	select {
	case s := <-l.channel():
		return s
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is said")
		return ""
	}
}

func (l *lines) none(t *testing.T) {
	select {
	case s := <-l.channel():
		t.Errorf("said again: %q", s)
	case <-time.After(300 * time.Millisecond):
	}
}

// service is a desktop that shows notices.
type service struct {
	can   []string
	shown chan []any
}

// GetCapabilities is the desktop's.
func (s service) GetCapabilities() ([]string, *dbus.Error) { return s.can, nil }

// Notify is the desktop's.
func (s service) Notify(
	app string, _ uint32, _, summary, body string, actions []string, hints map[string]dbus.Variant, _ int32,
) (uint32, *dbus.Error) {
	s.shown <- []any{app, summary, body, len(actions), hints["urgency"].Value()}
	return 1, nil
}

// A notice on the desktop goes over a real bus, as plain text, and has nothing to decide with.
func TestDesktop(t *testing.T) {
	t.Setenv(sessionbus.Address, "")
	if err := (Desktop{}).Tell(t.Context(), Notice{}); err == nil || !strings.Contains(err.Error(), "there is no session bus") {
		t.Errorf("without a bus: %v", err)
	}
	t.Setenv(sessionbus.Address, bus(t))
	if err := (Desktop{}).Tell(t.Context(), Notice{}); err == nil || !strings.Contains(err.Error(), "the desktop shows no notices") {
		t.Errorf("without a desktop: %v", err)
	}
	n := noticeOf([]palyra.Approval{asked("01A", `run "<b>x</b>"`, palyra.RiskHigh)})
	for markup, body := range map[bool]string{
		true: "agent:local asks (high): run &#34;&lt;b&gt;x&lt;/b&gt;&#34;", false: `agent:local asks (high): run "<b>x</b>"`,
	} {
		s := service{can: []string{"body"}, shown: make(chan []any, 1)}
		if markup {
			s.can = append(s.can, bodyMarkup)
		}
		conn, err := dbus.ConnectSessionBus()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Export(s, desktopPath, desktopService); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.RequestName(desktopService, dbus.NameFlagDoNotQueue); err != nil {
			t.Fatal(err)
		}
		if err := (Desktop{}).Tell(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if got := <-s.shown; !cmp.Equal(got, []any{"Palyra", "Palyra: an answer is waited for", body, 0, urgencyCritical}) {
			t.Errorf("%q", got)
		}
		_ = conn.Close()
	}
}

// bus starts a bus of a session.
func bus(t *testing.T) string {
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("%v; run scripts/setup.sh test", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
