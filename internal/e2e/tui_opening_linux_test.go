package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cli/ptytest"
)

// The first screen is drawn by a program that becomes another one meanwhile. When it is left so early the screen from before
// is back.
func TestTerminalUIIsLeftAtItsStart(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	for n := range 20 {
		cmd := (&elsewhere{t: t, home: d.home}).command("tui")
		s := opened{ptytest.Start(t, cmd, ptytest.Options{Rows: 30, Cols: 100, Patience: waitMost})}
		s.Expect("\x1b[?1049h")
		<-time.After(time.Duration(n) * time.Millisecond / 2)
		s.leave()
		s.wentBack(t, fmt.Sprint(n))
	}
}

// The second signal ends it at once, and the terminal is as it was, also while the daemon does not answer.
func TestTerminalUIIsEndedTwice(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart()
	must(t, d.cmd.Process.Signal(unix.SIGSTOP))
	t.Cleanup(func() { _ = d.cmd.Process.Signal(unix.SIGCONT) })
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM} {
		for n := range 10 {
			cmd := (&elsewhere{t: t, home: d.home}).command("tui")
			s := opened{ptytest.Start(t, cmd, ptytest.Options{Rows: 30, Cols: 100, Patience: waitMost})}
			s.Expect("\x1b[?1049h")
			for s.Mode().Lflag&unix.ICANON != 0 { // until it takes keys
				<-time.After(time.Millisecond)
			}
			for range 2 {
				_ = cmd.Process.Signal(sig)
				<-time.After(time.Duration(n) * 200 * time.Microsecond)
			}
			s.End()
			out := s.Seen.String()
			if strings.LastIndex(out, "\x1b[?1049l") < strings.LastIndex(out, "\x1b[?1049h") || !s.cooked() {
				t.Errorf("%v, %d × 200 µs apart: %q", sig, n, out)
			}
		}
	}
}

// A program of another version that does not take the line says so on the screen from before, and one without a name starts.
func TestTerminalUIOfAnotherVersion(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	shows := func(line string) string {
		cmd := exec.Command("/bin/bash", "-c", line, bin(t, "palyra-tui"), home)
		s := opened{ptytest.Start(t, cmd, ptytest.Options{Rows: 30, Cols: 100, Patience: waitMost})}
		s.End()
		return s.Seen.String()
	}
	out := shows(`exec "$0" --home "$1" tui --of-a-later-version --drawn=$$`)
	if at := strings.Index(out, "unknown flag: --of-a-later-version"); at < 0 || at < strings.Index(out, "\x1b[?1049l") {
		t.Errorf("it is said on the screen that is left: %q", out)
	}
	if out = shows(`PALYRA_HOME=$1 exec -a --drawn=$$ "$0"`); !strings.Contains(out, "Usage") || strings.Contains(out, "panic") {
		t.Errorf("without a name: %q", out)
	}
}

type opened struct{ *ptytest.Terminal }

// leave presses Ctrl-C until the program ends: there are milliseconds in which neither of the two programs hears it.
func (s opened) leave() {
	ended := make(chan struct{})
	var pressing sync.WaitGroup
	pressing.Go(func() {
		for {
			_, _ = io.WriteString(s.PTY, "\x03")
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	})
	s.End()
	close(ended)
	pressing.Wait()
}

// wentBack fails a test whose terminal is not as it was before.
func (s opened) wentBack(t *testing.T, what string) {
	t.Helper()
	out := s.Seen.String()
	entered, left := strings.Count(out, "\x1b[?1049h"), strings.Count(out, "\x1b[?1049l")
	if entered != 1 || left != 1 || strings.LastIndex(out, "\x1b[?1049l") < strings.LastIndex(out, "\x1b[?1049h") {
		t.Errorf("%s: the screen is entered %d times and left %d times: %q", what, entered, left, out)
	}
	if !s.cooked() {
		t.Errorf("%s: the terminal is raw", what)
	}
}

// cooked reports whether the terminal reads lines, shows what is typed and knows Ctrl-C.
func (s opened) cooked() bool {
	const on = uint32(unix.ISIG | unix.ICANON | unix.ECHO)
	return s.Mode().Lflag&on == on
}

// Where the terminal UI cannot be started the screen from before says so.
func TestTerminalUICannotBeStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, err := os.Open(bin(t, "palyra"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "palyra"), os.O_WRONLY|os.O_CREATE, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err == nil {
		err = to.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "palyra-tui"), []byte("no program"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "palyra"), "--home", t.TempDir(), "tui")
	s := opened{ptytest.Start(t, cmd, ptytest.Options{Rows: 30, Cols: 100, Patience: waitMost})}
	if code := s.End(); code != 1 {
		t.Errorf("ends with %d", code)
	}
	s.wentBack(t, "no program")
	if out := s.Seen.String(); strings.LastIndex(out, "exec format error") < strings.Index(out, "\x1b[?1049l") {
		t.Errorf("%q", out)
	}
}
