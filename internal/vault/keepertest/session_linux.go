package keepertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	within  = 30 * time.Second
	service = "org.freedesktop.secrets"
)

// Session is a session of a desktop as far as keys go: a bus, and GNOME's keyring when somebody logged in. Home and
// runtime directory are its own; no display is there, so no prompt can be answered.
type Session struct {
	Address string // for DBUS_SESSION_BUS_ADDRESS

	t       testing.TB
	dir     string
	env     []string
	attr    *syscall.SysProcAttr
	keyring *exec.Cmd
}

// Who has a session, where it is not the one who runs the tests.
type Who struct{ UID, GID int }

// Activates says whether the bus starts a keyring for whoever asks, as desktops' do. Nobody unlocks that one.
type Activates bool

// busConfig is a session bus that listens in a directory of its own.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><keep_umask/><listen>unix:tmpdir=%s</listen><auth>EXTERNAL</auth>%s
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
<allow user="*"/></policy>
</busconfig>`

// NewSession starts a bus. It is over with the test.
func NewSession(t testing.TB, activates Activates, who ...Who) *Session {
	t.Helper()
	for _, program := range []string{"dbus-run-session", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v; run scripts/setup.sh test", err)
		}
	}
	dir, err := os.MkdirTemp("", "palyra-session-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Session{t: t, dir: dir}
	services := ""
	if activates {
		services = "<standard_session_servicedirs/>"
	}
	config := filepath.Join(dir, "bus.xml")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir, services), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"home", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range who {
		s.attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.GID)}}
		for _, name := range []string{".", "home", "run"} {
			if err := os.Chown(filepath.Join(dir, name), w.UID, w.GID); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "LANG=C.UTF-8",
	}
	s.begin(config)
	return s
}

// begin starts the bus, which lives until its only program has read to the end.
func (s *Session) begin(config string) {
	s.t.Helper()
	cmd := exec.Command("dbus-run-session", "--config-file", config, "--", "/bin/sh", "-c", `echo "$DBUS_SESSION_BUS_ADDRESS"; exec cat`)
	cmd.Env, cmd.SysProcAttr, cmd.Dir = s.env, s.attr, s.dir
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.Logout()
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if s.Address = strings.TrimSpace(line); err != nil || !strings.HasPrefix(s.Address, "unix:") {
		s.t.Fatalf("no bus: %q, %v", line, err)
	}
	s.env = append(s.env, "DBUS_SESSION_BUS_ADDRESS="+s.Address)
}

// Login starts the keyring, unlocked as a login does it. What an earlier one kept is there.
func (s *Session) Login() {
	s.t.Helper()
	s.Logout()
	s.keyring = exec.Command("gnome-keyring-daemon", "--unlock", "--components=secrets", "--foreground")
	s.keyring.Env, s.keyring.SysProcAttr, s.keyring.Dir = s.env, s.attr, s.dir
	s.keyring.Stdin = strings.NewReader("the password of this test")
	if err := s.keyring.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.owned(true)
}

// Logout kills the keyring.
func (s *Session) Logout() {
	if s.keyring == nil {
		return
	}
	_ = s.keyring.Process.Kill()
	_ = s.keyring.Wait()
	s.keyring = nil
}

// owned waits until somebody answers for the Secret Service. Asking the service itself would have the bus start another.
func (s *Session) owned(want bool) {
	s.t.Helper()
	bus := s.Bus()
	for end := time.Now().Add(within); ; {
		var has bool
		if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, service).Store(&has); err != nil {
			s.t.Fatal(err)
		}
		if has == want {
			return
		}
		if time.Now().After(end) {
			s.t.Fatal("the keyring does not come")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// Bus connects to the bus.
func (s *Session) Bus() *dbus.Conn {
	s.t.Helper()
	bus, err := dbus.Connect(s.Address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = bus.Close() })
	return bus
}

// Lock locks every keyring, as a desktop does that nobody sits at.
func (s *Session) Lock() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	object := s.Bus().Object(service, "/org/freedesktop/secrets")
	var login, prompt dbus.ObjectPath
	if err := object.CallWithContext(ctx, "org.freedesktop.Secret.Service.ReadAlias", 0, "default").Store(&login); err != nil {
		s.t.Fatal(err)
	}
	var done []dbus.ObjectPath
	err := object.CallWithContext(ctx, "org.freedesktop.Secret.Service.Lock", 0, []dbus.ObjectPath{login}).Store(&done, &prompt)
	if err != nil || len(done) != 1 {
		s.t.Fatalf("lock %s: %v, %v", login, done, err)
	}
}
