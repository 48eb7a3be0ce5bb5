package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// The program gets exactly the arguments, the environment and the directory of
// its Spec.
func TestArgumentsAndEnvironment(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		dir := public(t)
		s := insideSpec("say", "a b", "", "\n$x")
		s.Env, s.Cwd = []string{"A=1", "EMPTY=", "A=2", "ODD"}, dir
		_, _, out := finished(t, w, s)
		if want := fmt.Sprintf("%q %q %q\n", []string{"a b", "", "\n$x"}, s.Env, dir); out != want {
			t.Errorf("%s, want %s", out, want)
		}
		s = open("/usr/bin/env")
		s.Env, s.Argv = nil, []string{"another name"}
		if _, _, out := finished(t, w, s); out != "" {
			t.Errorf("an environment out of nowhere: %q", out)
		}
	})
}

// Descriptors 0, 1 and 2, whatever the cell itself was left with, and waiting
// ones, whatever the daemon made of them.
func TestDescriptors(t *testing.T) {
	const list = `for f in /proc/$$/fd/*; do if [ -L "$f" ]; then echo "${f##*/}"; fi; done`
	each(t, func(t *testing.T, w who) {
		if _, _, out := finished(t, w, shell(list)); out != "0\n1\n2\n" {
			t.Errorf("descriptors %q", out)
		}
	})
	h := startWith(t, func(c *exec.Cmd) { c.ExtraFiles = append(c.ExtraFiles, null(t), null(t)) })
	h.order(shell(list))
	h.expect(cell.ReportStarted)
	if out := <-h.stdout; out != "0\n1\n2\n" {
		t.Errorf("descriptors %q", out)
	}

	h = start(t, me)
	in, _ := pipe(t)
	stdout, out := pipe(t)
	for _, f := range []*os.File{in, out} {
		if err := unix.SetNonblock(int(f.Fd()), true); err != nil {
			t.Fatal(err)
		}
	}
	got := drain(stdout)
	h.send(cell.Order{Kind: cell.OrderRun}, int(specFile(t, insideSpec("flags")).Fd()), rawFD(t, in), rawFD(t, out), rawFD(t, out))
	_ = out.Close()
	if out := <-got; out != strings.Repeat("false <nil>\n", 3) {
		t.Errorf("%q", out)
	}
}

// rawFD is f's descriptor as it is.
func rawFD(t *testing.T, f *os.File) (fd int) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(n uintptr) { fd = int(n) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// Signals mean what they mean by default, whatever the daemon's parents ignored,
// and new files are readable.
func TestSignalsAndMask(t *testing.T) {
	h := startWith(t, func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP PIPE USR1 CHLD; umask 077; exec "$0" supervise`, built}
	})
	h.order(open("/bin/cat", "/proc/self/status"))
	h.expect(cell.ReportStarted)
	got := status(<-h.stdout)
	for name, want := range map[string]string{
		"SigIgn": strings.Repeat("0", 16), "SigBlk": strings.Repeat("0", 16), "SigCgt": strings.Repeat("0", 16),
		"Umask": "0022", "NoNewPrivs": "1", "Seccomp": "2", "Seccomp_filters": "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, not %q", name, got[name], want)
		}
	}
}

func TestIdentity(t *testing.T) {
	none := strings.Repeat("0", 16)
	check := func(t *testing.T, w who, id *cell.Identity, want map[string]string) {
		t.Helper()
		s := open("/bin/cat", "/proc/self/status")
		s.Identity = id
		_, _, out := finished(t, w, s)
		got := status(out)
		for name, value := range want {
			if strings.Join(strings.Fields(got[name]), " ") != value {
				t.Errorf("%+v: %s is %q, not %q", id, name, got[name], value)
			}
		}
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if got[set] != none {
				t.Errorf("%+v: %s is %q", id, set, got[set])
			}
		}
	}
	if os.Getuid() == 0 {
		check(t, who{}, &cell.Identity{UID: ordinary, GID: ordinary + 5}, map[string]string{
			"Uid": "61234 61234 61234 61234", "Gid": "61239 61239 61239 61239", "Groups": "", "CapBnd": none, "NoNewPrivs": "1",
		})
		check(t, who{}, &cell.Identity{}, map[string]string{"Uid": "0 0 0 0", "Gid": "0 0 0 0", "Groups": "", "CapBnd": none})
		check(t, who{}, nil, map[string]string{"Uid": "0 0 0 0", "CapBnd": none})
		check(t, who{uid: ordinary}, &cell.Identity{UID: ordinary, GID: ordinary}, map[string]string{"Uid": "61234 61234 61234 61234"})
		return
	}
	check(t, me, nil, map[string]string{"NoNewPrivs": "1"})
	check(t, me, &cell.Identity{UID: os.Getuid(), GID: os.Getgid()}, map[string]string{"NoNewPrivs": "1"})
}

// Whatever a careless service manager gives the daemon, groups and capabilities
// that go on by themselves, does not reach the program.
func TestNothingIsInherited(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: only root has groups and capabilities to leave behind")
	}
	for _, uid := range []uint32{0, ordinary} {
		h := startWith(t, func(c *exec.Cmd) {
			c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{4, 27}}
			c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_RAW, unix.CAP_DAC_READ_SEARCH}
		})
		s := open("/bin/cat", "/proc/self/status")
		if uid == 0 {
			s.Identity = &cell.Identity{UID: ordinary, GID: ordinary}
		}
		h.order(s)
		h.expect(cell.ReportStarted)
		got := status(<-h.stdout)
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if got[set] != strings.Repeat("0", 16) {
				t.Errorf("uid %d: %s is %q", uid, set, got[set])
			}
		}
		if uid == 0 && got["Groups"] != "" {
			t.Errorf("groups %q", got["Groups"])
		}
	}
}

func TestOOMScore(t *testing.T) {
	h := startWith(t, func(c *exec.Cmd) {
		// A daemon that the kernel spares, where we may make one.
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `echo -300 2>/dev/null > /proc/self/oom_score_adj; exec "$0" supervise`, built}
	})
	h.order(open("/bin/cat", "/proc/self/oom_score_adj"))
	h.expect(cell.ReportStarted)
	if out := <-h.stdout; out != "500\n" {
		t.Errorf("the program's score is %q", out)
	}
}

func TestRlimits(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		s := shell("ulimit -n; ulimit -Hn; ulimit -c; ulimit -d; ulimit -t; ulimit -f")
		s.Rlimits = []cell.Rlimit{
			{Resource: unix.RLIMIT_NOFILE, Value: 77},
			{Resource: unix.RLIMIT_CORE, Value: 0},
			{Resource: unix.RLIMIT_DATA, Value: 4 << 20}, // far less than the launcher has itself
			{Resource: unix.RLIMIT_CPU, Value: 9},
			{Resource: unix.RLIMIT_FSIZE, Value: 1 << 20},
		}
		if _, _, out := finished(t, w, s); out != "77\n77\n0\n4096\n9\n2048\n" {
			t.Errorf("%q", out)
		}
	})
}

func TestNice(t *testing.T) {
	s := open("/usr/bin/nice")
	s.Nice = 19
	if _, _, out := finished(t, me, s); out != "19\n" { // the least there is, wherever the tests started from
		t.Errorf("niceness %q", out)
	}
}

// A ruleset that allows only what it names: directories, single files with the
// rights of directories trimmed, the program's own /proc, and what is optional.
func TestLandlock(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		dir := public(t)
		for _, name := range []string{"allowed", "denied"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		s := open("/bin/sh", "-c", `cat `+dir+`/allowed; cat `+dir+`/denied; echo > `+dir+`/new; read x < /proc/self/stat && echo own
			read x < /proc/1/stat || echo foreign denied`)
		const read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
		s.Landlock.Rules = []cell.Rule{
			{Path: "/usr", Access: read},
			{Path: "/bin", Access: read},
			{Path: "/lib", Access: read},
			{Path: "/lib64", Access: read, Optional: true},
			{Path: "/etc/ld.so.cache", Access: read, Optional: true},
			{Path: "/proc/self", Access: read},
			{Path: filepath.Join(dir, "allowed"), Access: s.Landlock.FS},
			{Path: filepath.Join(dir, "missing"), Access: read, Optional: true},
			{Path: filepath.Join(dir, "allowed", "below"), Access: read, Optional: true},
		}
		_, _, out := finished(t, w, s)
		want := []string{"allowed", "own", "foreign denied"}
		if got := lines(out); strings.Join(got[:3], "|") != strings.Join(want, "|") || strings.Contains(out, "\ndenied\n") {
			t.Errorf("%q", out)
		}
		if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
			t.Error("a file was made where none may be")
		}
	})
}

// The domain that scopes signals must not take away what a Spec allows: moving and
// linking between directories, which any domain denies that does not allow it.
func TestMovingBetweenDirectories(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		s := shell("mkdir a b && echo x > a/f && mv a/f b/f && ln b/f a/g && cat a/g")
		s.Cwd = public(t)
		if _, _, out := finished(t, w, s); out != "x\n" {
			t.Errorf("%q", out)
		}
	})
}

func TestSeccomp(t *testing.T) {
	s := shell("uname; echo $?")
	s.Filter = refuseCall(unix.SYS_UNAME)
	if _, _, out := finished(t, me, s); !strings.Contains(out, "1\n") || !strings.Contains(out, "not permitted") {
		t.Errorf("%q", out)
	}
}

// sealedCopy is a program as the daemon hands it over.
func sealedCopy(t *testing.T, path string) *os.File {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "copy")
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSealed(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		s := open("/does/not/matter", "inside:say", "sealed")
		s.Sealed, s.Landlock.Rules = true, []cell.Rule{{Path: "/proc", Access: unix.LANDLOCK_ACCESS_FS_READ_FILE}}
		h := start(t, w)
		h.order(s, sealedCopy(t, mirror))
		h.expect(cell.ReportStarted)
		if out := <-h.stdout; !strings.HasPrefix(out, `["sealed"]`) {
			t.Errorf("%q", out)
		}
		h.expect(cell.ReportExited)
		h.expect(cell.ReportEnded)
	})
}

// Whatever step fails is named, with the kernel's reason, and nothing ran.
func TestFailures(t *testing.T) {
	each(t, func(t *testing.T, w who) {
		dir := public(t)
		ran := filepath.Join(dir, "ran")
		text := filepath.Join(dir, "text")
		if err := os.WriteFile(text, []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			change func(*cell.Spec)
			step   string
			errno  unix.Errno
			says   string
		}{
			{"no such program", func(s *cell.Spec) { s.Path = "/no/such" }, "exec", unix.ENOENT, ""},
			{"no program at all", func(s *cell.Spec) { s.Path = text }, "exec", unix.ENOEXEC, ""},
			{"a directory", func(s *cell.Spec) { s.Path = dir }, "exec", unix.EACCES, ""},
			{"a program that Landlock denies", func(s *cell.Spec) { s.Landlock.Rules = nil }, "exec", unix.EACCES, ""},
			{"no such directory", func(s *cell.Spec) { s.Cwd = "/no/such" }, "cwd", unix.ENOENT, ""},
			{"no such rule path", func(s *cell.Spec) {
				s.Landlock.Rules = append(s.Landlock.Rules, cell.Rule{Path: "/no/such", Access: 4})
			}, "landlock", unix.ENOENT, "/no/such"},
			{"a rule beyond what is handled", func(s *cell.Spec) {
				s.Landlock.FS = 4
			}, "landlock", unix.EINVAL, "rule 0: /"},
			{"rights that the kernel does not know", func(s *cell.Spec) { s.Landlock.FS |= 1 << 60 }, "landlock", unix.EINVAL, "ruleset"},
			{"a scope that the kernel does not know", func(s *cell.Spec) { s.Landlock.Scoped |= 1 << 60 }, "landlock", unix.EINVAL, "ruleset"},
			{"no filter of seccomp's", func(s *cell.Spec) { s.Filter = make([]byte, 8) }, "seccomp", unix.EINVAL, ""},
			{"a filter against exec", func(s *cell.Spec) { s.Filter = refuseCall(unix.SYS_EXECVE) }, "exec", unix.EPERM, ""},
			{"no such rlimit", func(s *cell.Spec) { s.Rlimits = []cell.Rlimit{{Resource: 99}} }, "rlimit", unix.EINVAL, ""},
			{"no terminal", func(s *cell.Spec) { s.Terminal = true }, "terminal", unix.ENOTTY, ""},
			{"sealed, without a program", func(s *cell.Spec) { s.Sealed = true }, "spec", unix.EBADF, "sealed"},
			{"too many arguments", func(s *cell.Spec) { s.Argv = append(s.Argv, strings.Repeat("x", 4<<20)) }, "exec", unix.E2BIG, ""},
		} {
			if w.direct && (c.step == "landlock" || c.step == "spec") {
				continue // who makes the rules and the image finds it
			}
			s := shell("echo > " + ran)
			c.change(&s)
			h := start(t, w)
			h.order(s)
			r := h.expect(cell.ReportFailed)
			if r.Step != c.step || r.Errno != int(c.errno) || !strings.Contains(r.Text, c.says) || r.Text == "" {
				t.Errorf("%s: %+v", c.name, r)
			}
			if code := h.code(); code != refused {
				t.Errorf("%s: exit %d", c.name, code)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Fatalf("%s: something ran", c.name)
			}
		}
	})
}

func TestWhoMayNot(t *testing.T) {
	w := me
	if w.uid == 0 {
		w.uid = ordinary
	}
	for step, change := range map[string]func(*cell.Spec){
		"uid":    func(s *cell.Spec) { s.Identity = &cell.Identity{UID: 1, GID: 1} },
		"rlimit": func(s *cell.Spec) { s.Rlimits = []cell.Rlimit{{Resource: unix.RLIMIT_NOFILE, Value: 1 << 30}} },
		"nice":   func(s *cell.Spec) { s.Nice = -5 },
	} {
		s := shell("exit 0")
		change(&s)
		h := start(t, w)
		h.order(s)
		if r := h.expect(cell.ReportFailed); r.Step != step || (r.Errno != int(unix.EPERM) && r.Errno != int(unix.EACCES)) {
			t.Errorf("%s: %+v", step, r)
		}
	}
}

// A root daemon's program may work below a directory whose parents its owner
// cannot pass, as far as Landlock is concerned: rules are opened before the uid
// goes. The working directory is entered as the owner.
func TestRulesAreOpenedFirst(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("UNPROVEN HERE: only root changes its uid")
	}
	dir := public(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o777); err != nil {
		t.Fatal(err)
	}
	s := shell("exit 0")
	s.Identity = &cell.Identity{UID: ordinary, GID: ordinary}
	s.Landlock.Rules = append(s.Landlock.Rules, cell.Rule{Path: inner, Access: 4})
	if exited, _, _ := finished(t, me, s); exited.Code != 0 {
		t.Errorf("%+v", exited)
	}
	s.Cwd = inner
	h := start(t, me)
	h.order(s)
	if r := h.expect(cell.ReportFailed); r.Step != "cwd" || r.Errno != int(unix.EACCES) {
		t.Errorf("%+v", r)
	}
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte{cell.StepExec, 2, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got := parseFailure(b)
		if known := len(b) == 5 && int(b[0]) < len(cell.LineSteps); known != (got.errno != unix.EBADMSG || got.step != "launcher") {
			t.Errorf("%+v of %q", got, b)
		}
	})
}

// A workspace or a working directory that became a link since it was checked is
// not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := public(t)
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for step, change := range map[string]func(*cell.Spec){
		"cwd": func(s *cell.Spec) { s.Cwd = link },
		"landlock": func(s *cell.Spec) {
			s.Landlock.Rules = append(s.Landlock.Rules, cell.Rule{Path: link, Access: 4, Plain: true})
		},
	} {
		s := shell("exit 0")
		change(&s)
		h := start(t, me)
		h.order(s)
		if r := h.expect(cell.ReportFailed); r.Step != step || r.Errno != int(unix.ELOOP) {
			t.Errorf("%s: %+v", step, r)
		}
	}
}
