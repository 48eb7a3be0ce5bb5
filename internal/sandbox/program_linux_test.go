package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

// sealed makes the plan run a file of the workspace.
func (b *box) sealed(name string, data []byte, argv ...string) string {
	b.t.Helper()
	path := b.file(name, data)
	b.program(path, append([]string{"./" + name}, argv...)...)
	b.plan.Executable.Sealed = true
	b.plan.Enforcement.Mechanisms = append(b.plan.Enforcement.Mechanisms, Sealed) // promised, and not by the backend
	return path
}

func echo(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSealedProgram(t *testing.T) {
	b := newBox(t)
	path := b.sealed("mine", echo(t), "hello")
	b.back.onStart = func(j Job) { // after the comparison: too late to matter
		b.ok(os.WriteFile(path, []byte("#!/bin/false\n"), 0o755))
		want(t, "path", j.Path, path)
		if j.Sealed == nil {
			t.Error("not sealed")
		}
	}
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "hello\n")
	want(t, "mechanisms", res.Enforcement.Mechanisms, []string{"cell", Sealed, "seccomp"})
}

// While a script is read from a file system that takes its time, other programs start.
func TestSlowScriptHoldsUpNobody(t *testing.T) {
	r := &privateDir{path: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.path, exeDir), 0o700); err != nil {
		t.Fatal(err)
	}
	from, slow, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("#!/bin/sh\n#" + strings.Repeat("x", 256<<10)) // more than a pipe holds
	done := make(chan error, 1)
	go func() {
		_, err := sealScript(t.Context(), from, palyra.Executable{Path: "/w/slow.sh", Digest: palyra.SumBytes(text)}, r)
		done <- err
	}()
	if _, err := slow.Write(text); err != nil { // it is being read, and its end is not there yet
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- exec.Command("/bin/true").Run() }()
	select {
	case err := <-started:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("nothing can be started")
	}
	_ = slow.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(filepath.Join(r.path, exeDir, "slow.sh"))
	want(t, "copied as it is", string(got) == string(text), true)
	if err != nil {
		t.Error(err)
	}
}

func TestSealedScript(t *testing.T) {
	b := newBox(t)
	path := b.sealed("mine.sh", []byte("#!/bin/sh\necho script \"$@\"\n"), "a", "b c")
	b.back.onStart = func(j Job) {
		b.ok(os.WriteFile(path, []byte("#!/bin/false\n"), 0o755))
		want(t, "path", j.Path, filepath.Join(j.Private, "exe", "mine.sh"))
		if j.Sealed != nil {
			t.Error("a script in memory cannot be opened by its interpreter")
		}
		fi, err := os.Stat(j.Path)
		b.ok(err)
		st := fi.Sys().(*syscall.Stat_t)
		want(t, "copy", []any{fi.Mode(), st.Uid}, []any{os.FileMode(0o555), os.Geteuid()})
		dir, err := os.Stat(filepath.Dir(j.Path))
		b.ok(err)
		if os.Geteuid() != 0 && dir.Mode().Perm() != 0o500 {
			t.Errorf("exe is %v", dir.Mode())
		}
	}
	res := b.finished()
	want(t, "stdout", string(res.Stdout), "script a b c\n")
	want(t, "mechanisms", res.Enforcement.Mechanisms, []string{"cell", Sealed, "seccomp"})
}

// The file changes between the plan's last look and ours.
func TestExecutableChangedAtLaunch(t *testing.T) {
	changes := map[string]func(b *box, path string){
		"its bytes":      func(b *box, path string) { b.ok(os.WriteFile(path, []byte("#!/bin/sh\necho evil\n"), 0o755)) },
		"gone":           func(b *box, path string) { b.ok(os.Remove(path)) },
		"a link":         func(b *box, path string) { b.ok(os.Rename(path, path+"2")); b.ok(os.Symlink(path+"2", path)) },
		"a directory":    func(b *box, path string) { b.ok(os.Remove(path)); b.ok(os.Mkdir(path, 0o755)) },
		"a pipe":         func(b *box, path string) { b.ok(os.Remove(path)); b.ok(unix.Mkfifo(path, 0o755)) },
		"one byte more":  func(b *box, path string) { b.append(path, "x") },
		"nothing in it":  func(b *box, path string) { b.ok(os.Truncate(path, 0)) },
		"another script": func(b *box, path string) { b.ok(os.WriteFile(path, []byte("#!"), 0o755)) },
	}
	for kind, data := range map[string][]byte{"program": echo(t), "script": []byte("#!/bin/sh\necho good\n")} {
		for _, sealed := range []bool{true, false} {
			for name, change := range changes {
				t.Run(kind+" "+name, func(t *testing.T) {
					b := newBox(t)
					path := b.sealed("mine", data)
					b.plan.Executable.Sealed = sealed
					b.launch = func(l palyra.Launch, c *palyra.Call) (palyra.Launch, *palyra.Call) { change(b, path); return l, c }
					b.refused(palyra.Conflict, palyra.ReasonPlanChanged, "changed since the plan was judged: the executable "+path)
				})
			}
		}
	}
}

func (b *box) append(path, text string) {
	b.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	b.ok(err)
	_, err = f.WriteString(text)
	b.ok(errors.Join(err, f.Close()))
}

// Until a copy is known to be the plan's nobody but the daemon may read it.
func TestARefusedScriptIsNotShown(t *testing.T) {
	b := newBox(t)
	path := b.sealed("mine", []byte("#!/bin/sh\n"))
	exe := b.plan.Executable
	b.ok(os.WriteFile(path, []byte("#!/bin/sh\nsecret\n"), 0o755))
	r, err := b.r.private.make(callID, identity{ordinary(), ordinary()})
	b.ok(err)
	if _, _, err = seal(t.Context(), exe, r); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
		t.Errorf("%v", err)
	}
	left, err := os.ReadDir(filepath.Join(r.path, "exe"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
	b.ok(b.r.private.remove(r.name))
}

func TestProgramTooLargeForACopy(t *testing.T) {
	b := newBox(t)
	path := b.sealed("mine", echo(t))
	b.ok(os.Truncate(path, maxSealed+1))
	b.refused(palyra.Exhausted, palyra.ReasonFileTooLarge, "too large to be run from a copy")
}

func TestSumStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sum(ctx, endless{}, new(lockedBuffer), 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := sum(t.Context(), endless{}, full{}, 1<<20); err == nil {
		t.Error("a copy that failed is not noticed")
	}
	if _, err := sum(t.Context(), endless{}, forgetful{}, 1<<20); err == nil || !strings.Contains(err.Error(), "grew") {
		t.Errorf("%v", err)
	}
	if _, err := sum(t.Context(), broken{}, forgetful{}, 1<<20); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}

var errBroken = errors.New("broken")

type (
	endless   struct{}
	full      struct{}
	forgetful struct{}
	broken    struct{}
)

func (endless) Read(b []byte) (int, error)    { return len(b), nil }
func (full) Write([]byte) (int, error)        { return 0, errBroken }
func (forgetful) Write(b []byte) (int, error) { return len(b), nil }
func (broken) Read([]byte) (int, error)       { return 0, errBroken }

func TestDigestsAreRememberedOnlyForFilesTheUserCannotWrite(t *testing.T) {
	dir := passable(t)
	path := filepath.Join(dir, "p")
	data := []byte("x")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	exe := palyra.Executable{Path: path, Digest: palyra.SumBytes(data)}
	us, other := os.Geteuid(), identity{stranger + 1, stranger + 1}
	later := func() time.Time { return time.Now().Add(time.Hour) }
	for name, c := range map[string]struct {
		now  func() time.Time
		mode os.FileMode
		who  identity
		kept int
	}{
		"settled":         {later, 0o755, other, 1},
		"just changed":    {time.Now, 0o755, other, 0},
		"group may write": {later, 0o775, other, 0},
		"all may write":   {later, 0o757, other, 0},
		"its owner":       {later, 0o555, identity{us, us}, 0},
		"root":            {later, 0o555, identity{0, 0}, 0},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		s := newSums(c.now)
		for range 2 {
			if err := s.verify(t.Context(), exe, c.who, false); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		want(t, name, len(s.of), c.kept)
		for id := range s.of { // it is really asked, and believed
			s.of[id] = palyra.SumBytes([]byte("y"))
			if err := s.verify(t.Context(), exe, c.who, false); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
				t.Errorf("%s: %v", name, err)
			}
			if err := s.verify(t.Context(), exe, identity{us, us}, false); err != nil { // who may write is not believed
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	s := newSums(later)
	for i := range 2000 {
		s.put(fileID{ino: uint64(i)}, "d")
	}
	if len(s.of) > 512 {
		t.Errorf("%d digests are kept", len(s.of))
	}
}

func TestAFileThatCannotBeReadIsNotRun(t *testing.T) {
	if os.Geteuid() == 0 {
		return // root reads everything
	}
	b := newBox(t)
	path := b.sealed("mine", echo(t))
	b.ok(os.Chmod(path, 0o111))
	b.refused(palyra.Denied, palyra.ReasonNotExecutable, "cannot be read")
}
