package gpgagent

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What an agent says is read strictly.
func TestNumbers(t *testing.T) {
	got, err := numbers([]byte("(7:sig-val(5:eddsa(1:r3:a(b)(1:s2:cd)))"))
	if err != nil || string(got["r"]) != "a(b" || string(got["s"]) != "cd" {
		t.Errorf("%q %v", got, err)
	}
	for _, text := range []string{
		"(", ")", "(1:r)", "1:r", "(1:r3:ab)", "(1:r99999:ab)", "(x:r)", "((((((((((1:r1:a))))))))))", "((1:r1:a)(1:r1:b))", "(-1:r1:a)",
	} {
		if got, err := numbers([]byte(text)); err == nil && len(got) > 0 {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add([]byte("(7:sig-val(3:rsa(1:s1:x)))"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = numbers(text) })
}

// An agent that says what none would ends the request, and gets nothing but what is asked.
func TestAgentsThatAreNone(t *testing.T) {
	for what, says := range map[string]string{
		"nothing":       "",
		"a line":        "hello\n",
		"no end":        "OK\n" + strings.Repeat("D "+strings.Repeat("x", 900)+"\n", 200),
		"a long line":   strings.Repeat("x", 5000),
		"a bad escape":  "OK\nOK\nOK\nOK\nD %zz\nOK\n",
		"no expression": "OK\nOK\nOK\nOK\nD hello\nOK\n",
		"an error":      "OK\nERR 83886179 Operation cancelled <Pinentry>\n",
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(says))
			var sink [4096]byte
			for {
				if _, err := c.Read(sink[:]); err != nil || what == "nothing" {
					_ = c.Close()
					return
				}
			}
		}()
		ctx, done := context.WithTimeout(t.Context(), 2*time.Second) // one of them says nothing more: people have longer
		if got, err := Sign(ctx, socket, strings.Repeat("A", 40), "x", make([]byte, 64)); err == nil && len(got) > 0 {
			t.Errorf("%s: %q", what, got)
		}
		done()
		_ = l.Close()
	}
}

// What people are told cannot be a command.
func TestDescribed(t *testing.T) {
	if got := described("a b\nPKSIGN%+"); got != "a+b%0APKSIGN%25%2B" {
		t.Errorf("%q", got)
	}
}
