package seatbelt

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

// The script is for the bash of macOS, which is 3.2; the one here is newer and
// takes the same words. It sets the limits, says so, and becomes the program with
// its name and arguments as they are.
func TestScriptBecomesTheProgram(t *testing.T) {
	if _, err := os.Stat(shell); err != nil {
		t.Fatalf("bash is needed: %v", err)
	}
	run := func(argv []string, l palyra.Limits) (out, byteOnThree string, code int) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		cmd := exec.Command(shell, append([]string{"-p", "-c", script(l)}, argv...)...)
		var b bytes.Buffer
		cmd.Stdout, cmd.ExtraFiles, cmd.Env = &b, []*os.File{w}, []string{"BASH_ENV=/nonexistent/x", "A=1"}
		_ = cmd.Run() // its code is what is looked at
		_ = w.Close()
		three, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), string(three), cmd.ProcessState.ExitCode()
	}
	l := withDefaults(palyra.Limits{OpenFiles: 99, FileBytes: 5000, CPUMS: 2500})
	out, three, code := run(
		[]string{
			"my name", "/bin/sh", "-c", `echo "$0|$1|$2"; ulimit -n; ulimit -c; ulimit -t; ls /proc/self/fd/3 2>/dev/null || echo shut`,
			"zero", "a b", `"$(x)`,
		}, l)
	if want := "zero|a b|\"$(x)\n99\n0\n4\nshut\n"; out != want || three != readyByte || code != 0 {
		t.Errorf("%q, %q, %d, want %q", out, three, code, want)
	}
	name, _, _ := run([]string{"-odd", "/bin/cat", "/proc/self/cmdline"}, l)
	if name != "-odd\x00/proc/self/cmdline\x00" {
		t.Errorf("the name is %q", name)
	}
	if _, three, code := run([]string{"x", "/nonexistent"}, l); three != readyByte || code == 0 {
		t.Errorf("a program that is not there: %q, %d", three, code)
	}
	if _, three, code := run([]string{"x", "/bin/true"}, palyra.Limits{OpenFiles: 1 << 40, FileBytes: 1, CPUMS: 1}); three != "" ||
		code != 125 {
		t.Errorf("a limit that cannot be set: %q, %d", three, code)
	}
}

func TestLayOut(t *testing.T) {
	dir, src := t.TempDir(), t.TempDir()
	prog := filepath.Join(src, "prog")
	if err := os.WriteFile(prog, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sealed, err := os.Open(prog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sealed.Close() }()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(src, link); err != nil {
		t.Fatal(err)
	}
	own := os.Geteuid() == 0
	j := sandbox.Job{
		Call: call, Path: "/w/prog", Sealed: sealed, UID: 54321, GID: 54321,
		Mounts: []palyra.Mount{{Source: link, Target: "/home/agent/.cache/x"}},
		Files:  []palyra.RoomFile{{Target: "/home/agent/.config/git/config", Text: "hello"}},
	}
	p, err := layOut(dir, j, own)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(p.home() + "/.cache/x"); err != nil || to != src {
		t.Errorf("the mount leads to %s, %v", to, err)
	}
	if b, err := os.ReadFile(p.home() + "/.config/git/config"); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := os.ReadFile(p.exe() + "/prog"); err != nil || string(b) != "#!/bin/sh\n" {
		t.Errorf("%q, %v", b, err)
	}
	for at, want := range map[string]struct {
		mode   os.FileMode
		theirs bool
	}{
		p.root: {passMode, false}, p.home(): {0o700, true}, p.tmp(): {0o700, true}, p.exe(): {passMode, false},
		p.exe() + "/prog": {0o555, false}, p.home() + "/.config/git": {0o700, true}, p.home() + "/.config/git/config": {0o444, false},
	} {
		fi, err := os.Lstat(at)
		if err != nil || fi.Mode().Perm() != want.mode {
			t.Errorf("%s has %v, %v", at, fi.Mode(), err)
		}
		if uid := fi.Sys().(*syscall.Stat_t).Uid; own && (uid == 54321) != want.theirs {
			t.Errorf("%s is of %d", at, uid)
		}
	}
}
