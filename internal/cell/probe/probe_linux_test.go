package probe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cell"
)

// probed runs one probe in this process and returns its line.
func probed(t *testing.T, args ...string) finding {
	t.Helper()
	var out bytes.Buffer
	if code := Run(args, &out); code != 0 {
		t.Fatalf("%v: code %d", args, code)
	}
	var f finding
	if err := json.Unmarshal(out.Bytes(), &f); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v: %q %v", args, out.String(), err)
	}
	if f.Done == (f.Error != "") || f.Nonce != args[0] || f.Act != args[1] {
		t.Errorf("%v: %+v", args, f)
	}
	return f
}

func TestProbeRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{nil, {"probe"}, {"n"}} {
		if code := Run(args, io.Discard); code != cell.Refused {
			t.Errorf("%v: %d", args, code)
		}
	}
	for _, args := range [][]string{
		{"n", "nothing"},
		{"n", "read"},
		{"n", "read", "a", "b"},
		{"n", "syscall", "reboot"},
		{"n", "connect", "tcp", "localhost:1"},
		{"n", "signal", "-1"},
		{"n", "signal", "0"},
		{"n", "signal", "x"},
		{"n", "egress", "x", "127.0.0.1", "t"},
	} {
		if f := probed(t, args...); !strings.HasPrefix(f.Error, "untried: ") {
			t.Errorf("%v: %+v", args, f)
		}
	}
}

func TestProbeFiles(t *testing.T) {
	dir := t.TempDir()
	token, made := filepath.Join(dir, "token"), filepath.Join(dir, "made")
	if err := os.WriteFile(token, []byte("word"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := probed(t, "n", "read", token); f.Text != "word" {
		t.Errorf("%+v", f)
	}
	if f := probed(t, "n", "read", made); f.Error != "ENOENT" {
		t.Errorf("%+v", f)
	}
	if f := probed(t, "n", "create", made); !f.Done {
		t.Errorf("%+v", f)
	}
	if f := probed(t, "n", "create", made); f.Error != "EEXIST" {
		t.Errorf("%+v", f)
	}
	if f := probed(t, "n", "unseal", filepath.Join(dir, "nowhere", "config")); f.Done || !strings.HasPrefix(f.Error, "untried") {
		t.Errorf("a sealed path that is not there was not missed: %+v", f)
	}
}

// doorThat answers every connection with what it makes of its first words.
func doorThat(t *testing.T, answer func(r *bufio.Reader, c net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			answer(bufio.NewReader(c), c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().String()
}

// closedPort is one where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	_ = ln.Close()
	return port
}

// http answers CONNECT and plain requests that carry the credential, and only
// those that let says.
func httpDoor(let func(line string) bool) func(*bufio.Reader, net.Conn) {
	return func(r *bufio.Reader, c net.Conn) {
		if b, err := r.Peek(1); err != nil || b[0] == 5 {
			return
		}
		line, _ := r.ReadString('\n')
		known := false
		for {
			h, err := r.ReadString('\n')
			if err != nil || h == "\r\n" {
				break
			}
			known = known || h == "Proxy-Authorization: Basic dTpwOnc=\r\n"
		}
		if known && let(line) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nTOKEN")
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n{}")
	}
}

// socksDoor lets everybody pass who knows the credential.
func socksDoor(r *bufio.Reader, c net.Conn) {
	if b, err := r.Peek(1); err != nil || b[0] != 5 {
		return
	}
	head := make([]byte, 4)
	_, _ = io.ReadFull(r, head)
	_, _ = c.Write([]byte{5, 2})
	login := make([]byte, len("\x01\x01u\x03p:w"))
	if _, err := io.ReadFull(r, login); err != nil || string(login) != "\x01\x01u\x03p:w" {
		return
	}
	_, _ = c.Write([]byte{1, 0})
	ask := make([]byte, 5)
	if _, err := io.ReadFull(r, ask); err != nil || ask[3] != 3 {
		return
	}
	_, _ = io.ReadFull(r, make([]byte, int(ask[4])+2))
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	_, _ = io.WriteString(c, "TOKEN")
}

// TestProbeEgress: a door that lets pass what it should not is noticed, whatever
// it speaks; one that refuses is none.
func TestProbeEgress(t *testing.T) {
	for name, c := range map[string]struct {
		door func(*bufio.Reader, net.Conn)
		done bool
	}{
		"refuses":                {httpDoor(func(string) bool { return false }), false},
		"connects to everything": {httpDoor(func(l string) bool { return strings.HasPrefix(l, "CONNECT ") }), true},
		"connects to localhost":  {httpDoor(func(l string) bool { return strings.HasPrefix(l, "CONNECT localhost:") }), true},
		"connects by a name":     {httpDoor(func(l string) bool { return strings.HasPrefix(l, "CONNECT probe.palyra.invalid:") }), true},
		"passes requests on":     {httpDoor(func(l string) bool { return strings.HasPrefix(l, "GET http://127.0.0.1:") }), true},
		"socks":                  {socksDoor, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HTTPS_PROXY", "http://u:p:w@"+doorThat(t, c.door))
			f := probed(t, "n", "egress", closedPort(t), "127.0.0.1", "TOKEN")
			if f.Done != c.done || (!c.done && (f.Error != "ECONNREFUSED" || f.Text != "9 tries at doors")) {
				t.Errorf("%+v", f)
			}
		})
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		t.Setenv(name, "")
	}
	if f := probed(t, "n", "egress", closedPort(t), "127.0.0.1", "TOKEN"); f.Done || f.Text != "0 tries at doors" {
		t.Errorf("%+v", f)
	}
}

// TestProbeCalls: outside a sandbox the calls are really made: none is cell.Refused for
// what it asks.
func TestProbeCalls(t *testing.T) {
	for _, name := range []string{"keyctl", "io_uring_setup", "userfaultfd", "perf_event_open", "bpf"} {
		f := probed(t, "n", "syscall", name)
		if !f.Done && f.Error != "EPERM" && f.Error != "EACCES" && f.Error != "ENOSYS" {
			t.Errorf("%s: %+v", name, f)
		}
		t.Logf("%s: %+v", name, f)
	}
}
