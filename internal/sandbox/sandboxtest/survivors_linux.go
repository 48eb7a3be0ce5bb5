package sandboxtest

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// triesVar is how many programs that will not die are tried.
const triesVar = "PALYRA_SANDBOX_TRIES"

func tries(t *testing.T) int {
	t.Helper()
	text := os.Getenv(triesVar)
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q", triesVar, text)
	}
	return n
}

// left returns the processes, dead ones not yet reaped included, that carry a mark in their name or arguments.
func left(t *testing.T, mark string) []string {
	t.Helper()
	dir, err := os.ReadDir("/proc")
	check(t, err)
	var found []string
	for _, e := range dir {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(stat, []byte(mark)) || bytes.Contains(args, []byte(mark)) {
			found = append(found, e.Name()+" "+string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// killLeft ends what a broken sandbox left, so that one failure does not cause others.
func (b *bench) killLeft(t *testing.T) {
	for range 1000 {
		all := left(t, b.mark)
		if len(all) == 0 {
			return
		}
		for _, p := range all {
			pid, _ := strconv.Atoi(strings.Fields(p)[0])
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // a tier may have made us the reaper
		}
	}
	t.Error("what the sandbox left cannot be killed either:", left(t, b.mark))
}

// stayer is a program that tries to outlive its end.
type stayer struct {
	name  string
	args  string        // of the probe
	stop  bool          // it does not end by itself
	grace time.Duration // of that stop
}

var stayers = []stayer{
	{"a daemon of two generations", "daemon 2 close", false, 0},
	{"a daemon of nine generations that keeps its descriptors", "daemon 9 keep", false, 0},
	{"chains of processes that fork and end", "hop 4 4000 leave", false, 0},
	{"the same while it is being stopped", "hop 4 4000 stay", true, 50 * time.Millisecond},
	{"the same killed at once", "hop 4 4000 stay", true, 0},
	{"one that ignores every signal", "stubborn", true, 50 * time.Millisecond},
	{"many that ignore every signal", "spray 40", true, 50 * time.Millisecond},
	{"orphans", "orphans 40", false, 0},
	{"a stopped child", "stopped", false, 0},
	{"a child of its parent's", "sibling", false, 0},
	{"one that waits for its child", "vfork", true, 50 * time.Millisecond},
}

// survivors: whatever a program does to stay, when Wait returns nothing is left.
func survivors(t *testing.T, b *bench) {
	controlOfLeft(t, b)
	ticks := b.ticker(t)
	b.works(t, order{argv: []string{b.probe, "exit", "0"}})
	before := openHere(t)
	for i := range max(tries(t), len(stayers)) {
		s := stayers[i%len(stayers)]
		p := b.start(t, order{argv: append([]string{b.probe}, strings.Fields(s.args)...)})
		if s.stop {
			p.ready(t)
			p.Stop("suite says so", s.grace)
		}
		e := p.wait(t)
		if all := left(t, b.mark); len(all) > 0 {
			t.Errorf("%s: %d left: %s", s.name, len(all), clip(strings.Join(all, ", ")))
			b.killLeft(t)
		}
		if s.stop && (e.Stopped != "suite says so" || e.Signal != "SIGKILL") {
			t.Errorf("%s: signal %q, stopped %q", s.name, e.Signal, e.Stopped)
		}
		if !s.stop && (e.Code != 0 || e.Signal != "" || e.Left == 0) {
			t.Errorf("%s: code %d, signal %q, %d had to be killed: %s", s.name, e.Code, e.Signal, e.Left, clip(e.stderr))
		}
	}
	ticks.steady(t)
	const spare = 8 // what is kept ready comes and goes
	if after := openHere(t); after > before+spare {
		t.Errorf("the daemon had %d descriptors open before and has %d after", before, after)
	}
}

func openHere(t *testing.T) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(dir)
}

// controlOfLeft shows that a survivor would be seen.
func controlOfLeft(t *testing.T, b *bench) {
	t.Helper()
	cmd := exec.Command(b.probe, "daemon", "3", "close")
	cmd.SysProcAttr = b.who.credential()
	check(t, cmd.Run())
	eventually(t, "control: a daemon outside is seen", func() bool { return len(left(t, b.mark)) > 0 })
	b.killLeft(t)
	eventually(t, "control: it is gone", func() bool { return len(left(t, b.mark)) == 0 })
}
