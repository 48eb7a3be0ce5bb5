package bubble

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/celltest"
)

// doors are n of them.
func doors(n int) []cell.Listener {
	var out []cell.Listener
	for i := range n {
		out = append(out, cell.Listener{Addr: netip.AddrPortFrom(netip.MustParseAddr("198.18.0.1"), uint16(3128+i))})
	}
	return out
}

// TestBackendState looks at what the kernel says about a process inside.
func TestBackendState(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		_, got := s.script(b, `grep -E '^(Cap|NoNewPrivs|Seccomp:|SigIgn|SigBlk|Groups|Uid|Pid|PPid)' /proc/self/status; ls /proc/self/fd | tr '\n' ' '; echo; for n in user pid mnt net ipc uts; do readlink /proc/self/ns/$n; done; hostname; ls /proc | grep -c '^[0-9]'`)
		uid, _ := bwrap.Room{UID: who.UID, GID: who.GID}.Inside()
		for _, want := range []string{
			"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
			"CapAmb:\t0000000000000000",
			"NoNewPrivs:\t1", "Seccomp:\t2", "SigIgn:\t0000000000000000", "SigBlk:\t0000000000000000", "\n0 1 2 3 \n", "\npalyra\n",
			fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d", uid, uid, uid, uid),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		for _, ns := range []string{"user", "pid", "mnt", "net", "ipc", "uts"} {
			ours, err := os.Readlink("/proc/self/ns/" + ns)
			if err != nil || strings.Contains(got, ours) || !strings.Contains(got, ns+":[") {
				t.Errorf("the %s namespace %q is shared with the host:\n%s", ns, ours, got)
			}
		}
	})
}

// TestBackendFiles: what is the room's own stays in it, the workspace is the host's,
// and nothing else is there.
func TestBackendFiles(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		secret := filepath.Join(tempDir(t), "secret")
		if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("palyra-inside-%d", os.Getpid())
		code, out := s.script(b, `set -e; for d in /tmp /home/agent /run /dev/shm; do echo x > $d/`+name+`; done; echo made > here
			cat here; echo x > /dev/null; head -c 3 /dev/urandom | wc -c; test ! -e `+secret+`; test ! -e /etc/shadow; test ! -e /root; ls /home
			for d in / /usr /etc /dev /proc/sys/kernel/hostname; do (echo x > $d/probe) 2>/dev/null && echo "$d can be written"; done; exit 0`)
		if code != 0 || out != "made\n3\nagent" {
			t.Errorf("exit %d: %s", code, out)
		}
		for _, d := range []string{"/tmp", "/run", "/dev/shm"} {
			if _, err := os.Stat(filepath.Join(d, name)); err == nil {
				t.Errorf("%s is not private", d)
			}
		}
		if b, err := os.ReadFile(s.workspace + "/here"); err != nil || string(b) != "made\n" {
			t.Errorf("%q %v", b, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(s.workspace+"/here", &st); err != nil || int64(st.Uid) != who.UID {
			t.Errorf("the file is uid %d's: %v", st.Uid, err)
		}
	})
}

// TestBackendMounts: what a plan mounts is seen, and written only where it says so.
func TestBackendMounts(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		shown, cache := newSite(t, who), newSite(t, who)
		shown.file("tool", "shown")
		j := s.job("/bin/sh", "-c", `cat /srv/shown/tool /home/agent/.config/x; echo c > /home/agent/.cache/c; (echo x > /srv/shown/tool) 2>/dev/null || echo read-only
			for c in 'echo x > .config/x' 'mv .config/x y' 'rm .config/x' 'chmod 777 .config/x' 'mv .cache y'; do (cd /home/agent; eval "$c") 2>/dev/null && echo "WORKED: $c"; done
			cat /home/agent/.config/x /home/agent/.cache/c; stat -c '%a %F' /home/agent/.config/x; echo y > /home/agent/.config/y && echo beside
			df --output=size,itotal -B1 /tmp /home/agent /dev/shm /run | tail -n +2 | tr -s ' '`)
		j.Mounts = []palyra.Mount{
			{Source: shown.workspace, Target: "/srv/shown"},
			{Source: cache.workspace, Target: "/home/agent/.cache", Writable: true},
		}
		j.Files = []palyra.RoomFile{{Target: "/home/agent/.config/x", Text: "laid\n"}}
		if x := runJob(t, b, j); x.Code != 0 ||
			s.printed() != "shownlaid\nread-only\nlaid\nc\n444 regular file\nbeside\n 67108864 8192\n 67108864 8192\n 67108864 8192\n 8388608 1024" {
			t.Errorf("%+v: %s", x, s.printed())
		}
		if got, err := os.ReadFile(cache.workspace + "/c"); err != nil || string(got) != "c\n" {
			t.Errorf("the cache: %q %v", got, err)
		}
	})
}

// TestBackendSealedProgram: the copy runs under the program's own name, also a
// script whose interpreter opens it by name; the file in the workspace is not what
// runs.
func TestBackendSealedProgram(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		for name, text := range map[string]string{"script": "#!/bin/sh\necho copy of $0\n", "binary": ""} {
			s := newSite(t, who)
			prog := filepath.Join(s.workspace, name)
			s.file(name, "#!/bin/sh\necho the file\n")
			if err := os.Chmod(prog, 0o755); err != nil {
				t.Fatal(err)
			}
			body := []byte(text)
			if text == "" {
				var err error
				if body, err = os.ReadFile("/bin/echo"); err != nil {
					t.Fatal(err)
				}
			}
			j := s.job(prog, "copy of "+prog)
			j.Sealed = celltest.Sealed(t, body)
			x := runJob(t, b, j)
			if s.printed() != "copy of "+prog || !slices.Contains(x.Enforcement.Mechanisms, sandbox.Sealed) {
				t.Errorf("%s: %q %+v", name, s.printed(), x)
			}
			if _, err := j.Sealed.Stat(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the copy is still open: %v", err)
			}
		}
	})
}

// TestBackendDoors: who listens on the sockets that Open is given is reached from
// inside, from a warm cell as from a cold one; nobody else is.
func TestBackendDoors(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		c.Warm = 1
		b := openBackend(t, c)
		s := newSite(t, who)
		host, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = host.Close() }()
		for n := range 2 {
			answered := make(chan error, 1)
			j := s.job("/usr/bin/python3", "-c", fmt.Sprintf(`import socket
s=socket.create_connection(("198.18.0.1",3128)); print(s.recv(9).decode())
for a in [("198.18.0.1",9),("127.0.0.1",%d),("1.1.1.1",443)]:
    try: socket.create_connection(a,timeout=5); print("reached",a)
    except OSError: pass`, host.Addr().(*net.TCPAddr).Port))
			j.Doors = doors(2)
			j.Open = func(files []*os.File) error {
				if len(files) != 2 {
					return errors.New("not two")
				}
				l, err := net.FileListener(files[0])
				cell.CloseAll(files)
				if err != nil {
					return err
				}
				go func() {
					defer func() { _ = l.Close() }()
					_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Second))
					c, err := l.Accept()
					if err == nil {
						_, err = c.Write([]byte("the guard"))
						err = errors.Join(err, c.Close())
					}
					answered <- err
				}()
				return nil
			}
			x := runJob(t, b, j)
			if err := <-answered; err != nil || x.Code != 0 || s.printed() != "the guard" {
				t.Errorf("%d: %+v %v: %s", n, x, err, s.printed())
			}
			eventually(t, "a warm cell", func() bool { return b.pool.idle() == 1 })
		}
	})
}

// TestBackendDoorsRefused: when nobody takes the doors over, nothing runs.
func TestBackendDoorsRefused(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	j := s.job("/bin/sh", "-c", "touch ran")
	refusal := palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "no")
	j.Doors, j.Open = doors(1), func(f []*os.File) error { cell.CloseAll(f); return refusal }
	if _, err := b.Start(t.Context(), j); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(s.workspace + "/ran"); err == nil {
		t.Error("it ran")
	}
}

// TestBackendMissingWorkspace: a job whose room cannot be built does not run.
func TestBackendMissingWorkspace(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		j := s.job("/bin/sh", "-c", "touch ran")
		defer j.CloseFiles()
		w := b.want(j)
		w.room.Workspace += "/missing"
		if k, err := b.build(t.Context(), w); err == nil || exists(s.workspace+"/ran") {
			t.Errorf("%+v", k)
		}
	})
}

// TestBackendUnixSockets: refused unless the plan says so.
func TestBackendUnixSockets(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	const try = `import socket
try:
    s=socket.socket(socket.AF_UNIX); s.bind("sock"); print("made")
except OSError as e: print(e.errno)
a,b=socket.socketpair(); a.send(b"x"); print(b.recv(1).decode())
for f,k,p in [(socket.AF_INET,socket.SOCK_RAW,1),(17,socket.SOCK_RAW,0),(40,socket.SOCK_STREAM,0),(16,socket.SOCK_RAW,9)]:
    try: socket.socket(f,k,p); print("made",f)
    except OSError as e: assert e.errno==1, e
socket.socket(16,socket.SOCK_RAW,0); socket.socket(socket.AF_INET6)
l=socket.create_server(("127.0.0.1",8080)); c=socket.create_connection(("localhost",8080)); print("local")`
	for allowed, want := range map[bool]string{false: "1\nx\nlocal", true: "made\nx\nlocal"} {
		j := s.job("/usr/bin/python3", "-c", try)
		j.Unix = allowed
		if x := runJob(t, b, j); x.Code != 0 || s.printed() != want {
			t.Errorf("unix %v: %+v: %s", allowed, x, s.printed())
		}
	}
}

// TestBackendTerminal: the program has it as its controlling one, by name and
// size.
func TestBackendTerminal(t *testing.T) {
	b := openBackend(t, configOf(t))
	s := newSite(t, celltest.Residents()[0])
	ptmx, tty := openPTY(t)
	defer func() { _ = ptmx.Close() }()
	j := s.job("/bin/sh", "-c", "test -t 0 && test -t 1; stty size; echo named > /dev/tty; read x; stty size; echo got $x")
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr} {
		_ = f.Close()
	}
	j.Terminal, j.Stdin, j.Stdout, j.Stderr = true, tty, dup(t, tty), dup(t, tty)
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatal(err, palyra.AsError(err).Cause)
	}
	var seen bytes.Buffer
	read := func(until string) {
		t.Helper()
		_ = ptmx.SetReadDeadline(time.Now().Add(20 * time.Second))
		for buf := make([]byte, 256); !strings.Contains(seen.String(), until); {
			n, err := ptmx.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("%v after %q", err, seen.String())
			}
		}
	}
	read("named")
	if err := p.Resize(33, 111); err != nil {
		t.Error(err)
	}
	eventually(t, "the new size", func() bool {
		var w *unix.Winsize
		raw, err := ptmx.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { w, _ = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) })
		}
		return err == nil && w != nil && w.Row == 33
	})
	if _, err := ptmx.WriteString("line\n"); err != nil {
		t.Error(err)
	}
	read("got line")
	waitFor(t, p)
	if out := seen.String(); !strings.Contains(out, "named") || !strings.Contains(out, "33 111") {
		t.Errorf("%q", out)
	}
}

func dup(t testing.TB, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// openPTY makes a terminal.
func openPTY(t testing.TB) (ptmx, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ptmx = os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	if tty, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return ptmx, tty
}
