package process

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/plan"
)

const (
	nobody = 65534
	asUser = "PALYRA_TEST_AS_USER"
)

// TestMain runs everything a second time as an ordinary user when it is root:
// the promises hold for both kinds of daemon.
func TestMain(m *testing.M) {
	code := m.Run()
	fuzzing := flag.Lookup("test.fuzz")
	if code == 0 && os.Geteuid() == 0 && os.Getenv(asUser) == "" && !*update && (fuzzing == nil || fuzzing.Value.String() == "") {
		code = again()
	}
	os.Exit(code)
}

// again runs a copy of the test binary as nobody.
func again() int {
	dir, err := os.MkdirTemp("", "palyra-process")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin := filepath.Join(dir, "process.test")
	if err := errors.Join(copyFile(os.Args[0], bin), os.Chmod(dir, 0o755), os.Chmod(bin, 0o755)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args := []string{bin}
	for _, a := range os.Args[1:] {
		if !strings.Contains(a, "testlogfile") && !strings.Contains(a, "profile") && !strings.Contains(a, "outputdir") &&
			!strings.Contains(a, "gocoverdir") {
			args = append(args, a)
		}
	}
	p, err := os.StartProcess(bin, args, &os.ProcAttr{
		Env:   append(os.Environ(), asUser+"=1", "HOME=/nonexistent"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	st, err := p.Wait()
	if err != nil || !st.Success() {
		fmt.Fprintln(os.Stderr, "as an ordinary user:", st, err)
		return 1
	}
	return 0
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// box is a workspace of some owner, with an outside beside it.
type box struct {
	*testing.T
	dir   string // the workspace
	out   string // a directory beside it
	owner int
	d     *Driver
	asked string // how the caller spells the workspace; empty: as it is
}

// each runs a test for a workspace of our own and, as root, for one of another.
func each(t *testing.T, f func(b *box)) {
	owners := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		owners = append(owners, nobody)
	}
	for _, owner := range owners {
		t.Run(fmt.Sprintf("uid%d", owner), func(t *testing.T) { f(newBox(t, owner)) })
	}
}

func newBox(t *testing.T, owner int) *box {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{T: t, dir: filepath.Join(top, "ws"), out: filepath.Join(top, "out"), owner: owner, d: driver(t, Config{})}
	b.ok(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Mkdir(b.dir, 0o755), os.Mkdir(b.out, 0o755))
	b.own(b.dir, b.out)
	return b
}

func (b *box) ok(errs ...error) {
	b.Helper()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}

// own gives paths to the workspace's owner.
func (b *box) own(paths ...string) {
	b.Helper()
	if os.Geteuid() == 0 {
		for _, p := range paths {
			b.ok(os.Lchown(p, b.owner, b.owner))
		}
	}
}

func (b *box) path(rel string) string { return filepath.Join(b.dir, rel) }

// put makes a file of the owner's, and its directories.
func (b *box) put(rel, content string, mode os.FileMode) string {
	b.Helper()
	b.mkdir(filepath.Dir(rel))
	b.ok(os.WriteFile(b.path(rel), []byte(content), 0o600), os.Chmod(b.path(rel), mode))
	b.own(b.path(rel))
	return content
}

func (b *box) mkdir(rel string) {
	b.Helper()
	at := b.dir
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Clean(rel)), "/") {
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err == nil {
			b.own(at)
		} else if !errors.Is(err, fs.ErrExist) {
			b.Fatal(err)
		}
	}
}

func (b *box) link(target, rel string) {
	b.Helper()
	b.mkdir(filepath.Dir(rel))
	b.ok(os.Symlink(target, b.path(rel)))
	b.own(b.path(rel))
}

// Resolve implements plan.Workspaces.
func (b *box) Resolve(context.Context, string, int64) (palyra.WorkspaceRef, error) {
	return palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner), Known: true}, nil
}

// args are a call's arguments.
type args map[string]any

// plan resolves a call as the daemon does.
func (b *box) plan(a args) (palyra.Plan, error) { return b.planIn(b.Context(), a) }

func (b *box) planIn(ctx context.Context, a args) (palyra.Plan, error) {
	b.Helper()
	raw, err := json.Marshal(a)
	b.ok(err)
	r, err := plan.New(plan.Config{Workspaces: b, Drivers: []plan.Driver{b.d}})
	b.ok(err)
	return r.Resolve(ctx, &palyra.Call{ID: "C", Proposal: palyra.Proposal{Tool: Name, Arguments: raw, Workspace: b.asked}})
}

// run is the arguments of a command line; its words have no spaces.
func run(line string) args {
	words := strings.Split(line, " ")
	return args{"command": words[0], "args": words[1:]}
}

// must is plan that has to succeed.
func (b *box) must(a args) palyra.Plan {
	b.Helper()
	p, err := b.plan(a)
	if err != nil {
		b.Fatalf("%v: %v (%v)", a, err, errors.Unwrap(err))
	}
	return p
}

func (b *box) digest(a args) palyra.Digest {
	b.Helper()
	d, err := b.must(a).Digest()
	b.ok(err)
	return d
}

// refused is plan that has to fail with the reason and a remedy.
func (b *box) refused(want palyra.Reason, remedy string, a args) {
	b.Helper()
	_, err := b.plan(a)
	wants(b, fmt.Sprint(a), err, want, remedy)
}

// inputs has to be what a plan binds: path → content, or "-" for a missing file.
func (b *box) inputs(p palyra.Plan, want map[string]string) {
	b.Helper()
	got := map[string]palyra.Digest{}
	for _, in := range p.Inputs {
		if _, twice := got[in.Path]; twice {
			b.Errorf("%s is bound twice", in.Path)
		}
		got[in.Path] = in.Digest
	}
	for path, content := range want {
		digest := palyra.SumBytes([]byte(content))
		if content == "-" {
			digest = ""
		}
		if d, ok := got[path]; !ok || d != digest {
			b.Errorf("%q: %s is bound as %q (%v), want %q", p.Argv, path, d, ok, digest)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		b.Errorf("%q: bound beside: %v", p.Argv, got)
	}
}

func (b *box) noted(p palyra.Plan, part string, want bool) {
	b.Helper()
	if strings.Contains(strings.Join(p.Detail.Notes, "\n"), part) != want {
		b.Errorf("%q: noted %q: %v; notes: %q", p.Argv, part, !want, p.Detail.Notes)
	}
}

// native is the first bytes of a program, and something to tell it from others.
func native(s string) string { return "\x7fELF\x02" + s }

// system returns the real path and the content of a program of the system.
func (b *box) system(name string) (string, string) {
	b.Helper()
	for dir := range strings.SplitSeq(cell.SearchPath, ":") {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		content, err := os.ReadFile(real)
		b.ok(err)
		return real, string(content)
	}
	b.Fatalf("no %s here", name)
	return "", ""
}

// tree is everything below a directory with what a change would leave: times,
// mode, owner and content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		all[p] = fmt.Sprintf("%v %d %d %d %d %d", fi.Mode(), st.Uid, st.Gid, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
