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
	if on := uint32(unix.ISIG | unix.ICANON | unix.ECHO); s.Mode().Lflag&on != on {
		t.Errorf("%s: the terminal is raw", what)
	}
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
