//go:build unix

package rpc_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/exetest"
	"palyra/internal/rpc"
)

func TestSocketsAreOurs(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, door := range []string{"agent", "operator"} {
		info, err := os.Stat(b.socket(door))
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
			t.Errorf("%s: %v %v", door, info.Mode(), err)
		}
	}
	b.must(b.stop())
	for _, door := range []string{"agent", "operator"} {
		if _, err := os.Lstat(b.socket(door)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", door, err)
		}
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	b := newBench(t, rpc.New)
	if _, err := rpc.New(b.config()); palyra.AsError(err).Reason != palyra.ReasonSecondDaemon {
		t.Errorf("%v", err)
	}
	if code, _ := b.post("agent", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("the first one is gone: %d", code)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	b := newBench(t, rpc.New)
	b.must(b.stop())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket("agent"), Net: "unix"})
	b.must(err)
	l.SetUnlinkOnClose(false)
	b.must(l.Close()) // a daemon died here
	b.server, err = rpc.New(b.config())
	b.must(err)
	b.run()
	if code, _ := b.post("agent", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("%d", code)
	}
}

func TestUnsafePlacesAreRefused(t *testing.T) {
	b := newBench(t, rpc.New)
	b.must(b.stop())
	try := func(want palyra.Reason) {
		t.Helper()
		s, err := rpc.New(b.config())
		if err == nil {
			_ = s.Close()
		}
		if palyra.AsError(err).Reason != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	b.must(os.WriteFile(b.socket("agent"), []byte("precious"), 0o600))
	try(palyra.ReasonUnsafePermissions)
	if raw, _ := os.ReadFile(b.socket("agent")); string(raw) != "precious" {
		t.Error("a file was removed")
	}
	b.must(os.Remove(b.socket("agent")))
	b.must(os.Chmod(b.dir, 0o750))
	try(palyra.ReasonUnsafePermissions)
	b.must(os.Chmod(b.dir, 0o700))
	long := b.dir
	b.dir = filepath.Join(b.dir, strings.Repeat("x", 100))
	b.must(os.Mkdir(b.dir, 0o700))
	try(palyra.ReasonConfig)
	b.dir = long
	link := filepath.Join(b.dir, "link")
	b.must(os.Mkdir(filepath.Join(b.dir, "real"), 0o700))
	b.must(os.Symlink(filepath.Join(b.dir, "real"), link))
	b.dir = link
	try(palyra.ReasonUnsafePermissions)
	b.dir = filepath.Join(long, "missing")
	if _, err := rpc.New(b.config()); err == nil {
		t.Error("bound in a directory that is not there")
	}
	b.dir = long
	s, err := rpc.New(b.config())
	b.must(err)
	b.must(s.Close())
	b.must(s.Close())
}

func TestNewNeedsItsParts(t *testing.T) {
	if _, err := rpc.New(rpc.Config{}); err == nil {
		t.Error("made from nothing")
	}
}

// foreign is set in a child that runs as another user.
const foreign = "PALYRA_TEST_FOREIGN_SOCKET"

// TestForeignUser shows the door from another user's side. Run by its parent
// it plays that user.
func TestForeignUser(t *testing.T) {
	if path := os.Getenv(foreign); path != "" {
		knock(t, path)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can start a process as another user")
	}
	b := newBench(t, rpc.New)
	// The directory and modes alone keep others out; open both, so that only the
	// kernel's word about the peer is left.
	b.must(os.Chmod(b.dir, 0o755))
	exe := copyOfTest(t, b.dir)
	for _, door := range []string{"agent", "operator"} {
		b.must(os.Chmod(b.socket(door), 0o666))
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestForeignUser$", "-test.v")
		cmd.Dir = "/"
		cmd.Env = []string{foreign + "=" + b.socket(door)}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "refused 4 times") {
			t.Errorf("%s: %v\n%s", door, err, out)
		}
	}
	alerts := b.journal.alerts()
	if len(alerts) == 0 || alerts[0].Reason != palyra.ReasonForeignUID || alerts[0].PeerUID != 65534 {
		t.Errorf("%+v", alerts)
	}
	if seen := b.parts.Seen(); len(seen) > 0 {
		t.Errorf("reached %v", seen)
	}
}

// copyOfTest puts this test binary where everybody may run it.
func copyOfTest(t *testing.T, dir string) string {
	t.Helper()
	exe := filepath.Join(dir, "rpc.test")
	if err := exetest.Copy(exe, "/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	return exe
}

func knock(t *testing.T, path string) {
	dir, name := filepath.Split(path)
	b := &bench{t: t, dir: strings.TrimSuffix(dir, "/")}
	door := strings.TrimSuffix(name, ".sock")
	refused := 0
	for path, kind := range map[string]string{
		"/palyra.v1.StatusService/GetStatus":                        "application/json",
		"/palyra.v1.ToolService/CallTool":                           "application/connect+json",
		"/grpc.health.v1.Health/Check":                              "application/json",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": "application/grpc-web",
	} {
		code, body := b.post(door, path, kind, "{}")
		if strings.Contains(body, "own user") {
			refused++
		} else {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	t.Logf("refused %d times", refused)
}
