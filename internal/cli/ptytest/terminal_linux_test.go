package ptytest_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cli/ptytest"
)

var room = ptytest.Options{Rows: 24, Cols: 80, Patience: time.Minute}

func at(t testing.TB, o ptytest.Options, script string) *ptytest.Terminal {
	t.Helper()
	return ptytest.Start(t, exec.CommandContext(t.Context(), "sh", "-c", script), o)
}

// A program at the terminal has one, of the size that was asked for, and is heard
// to its end.
func TestTerminal(t *testing.T) {
	s := at(t, room, `test -t 0 && test -t 1 && test -t 2 && stty size; echo "name? "; read name; stty size; echo "hello $name"; exit 7`)
	if got := s.Find(`(\d+) (\d+)`); got[1] != "24" || got[2] != "80" {
		t.Errorf("%q", got)
	}
	s.Expect("name? ")
	s.Resize(30, 90)
	s.Type("ann\r")
	s.Expect("30 90")
	if code := s.End(); code != 7 || !strings.Contains(s.Seen.String(), "hello ann") {
		t.Errorf("exit %d\n%s", code, s.Seen.String())
	}
}

// A secret is asked for when the terminal does not show what is typed, not before.
func TestSecret(t *testing.T) {
	s := at(t, room, `printf 'secret? '; stty -echo; read word; stty echo; echo "got $word"; read rest`)
	s.Secret(`secret\? `)
	s.Type("horse\r")
	s.Expect("got horse")
	if n := strings.Count(s.Seen.String(), "horse"); n != 1 {
		t.Errorf("it is on the screen %d times", n)
	}
	if s.Mode().Lflag&unix.ECHO == 0 {
		t.Error("the terminal is left as it was for the secret")
	}
	s.Type("\x03")
	if code := s.End(); code == 0 {
		t.Errorf("exit %d", code)
	}
}

// failed is a test that only notes why it would end.
type failed struct {
	testing.TB
	why string
}

func (f *failed) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *failed) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	panic(f)
}

// fails returns why f fails its test.
func fails(f *failed, do func()) (why string) {
	defer func() {
		if recover() != nil {
			why = f.why
		}
	}()
	do()
	return ""
}

// What does not come is not waited for without end, and what was there is shown.
func TestWaitsEnd(t *testing.T) {
	f := &failed{TB: t}
	short := room
	short.Patience = 100 * time.Millisecond
	s := at(f, short, `echo there; exec cat`)
	s.Expect("there")
	for name, do := range map[string]func(){
		"expect": func() { s.Expect("nothing") },
		"secret": func() { s.Secret("there") },
		"end":    func() { s.End() },
	} {
		if why := fails(f, do); why == "" || name != "secret" && !strings.Contains(why, "there") {
			t.Errorf("%s: %q", name, why)
		}
	}
	over := at(f, room, `echo over`)
	if why := fails(f, func() { over.Expect("nothing") }); !strings.Contains(why, "ended without") {
		t.Errorf("%q", why)
	}
	over.End()
	if why := fails(f, func() { ptytest.Start(f, exec.Command("/no/such/program"), room) }); why == "" {
		t.Error("a program that is not there was started")
	}
	s.Type("\x04")
	_ = s.Cmd.Wait()
}
