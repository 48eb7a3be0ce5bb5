//go:build unix

package files

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/exetest"
	"palyra/internal/tool"
	"palyra/internal/tool/files/unified"
)

const (
	nobody  = 65534
	asUser  = "PALYRA_TEST_AS_USER" // "openat2", or "walk" for kernels without it
	testUID = "palyra-test"
)

// TestMain runs everything a second time as an ordinary user when it is root:
// the promises hold for both kinds of daemon.
func TestMain(m *testing.M) {
	if os.Getenv(asUser) == "walk" {
		withoutOpenat2()
	}
	code := m.Run()
	fuzzing := flag.Lookup("test.fuzz")
	if os.Geteuid() == 0 && os.Getenv(asUser) == "" && (fuzzing == nil || fuzzing.Value.String() == "") {
		for _, how := range []string{"openat2", "walk"} {
			if code == 0 {
				code = again(how)
			}
		}
	}
	os.Exit(code)
}

// again runs a copy of the test binary as nobody.
func again(how string) int {
	dir, err := os.MkdirTemp("", testUID)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin := filepath.Join(dir, "files.test")
	if err := errors.Join(exetest.Copy(bin, os.Args[0]), os.Chmod(dir, 0o755), os.Chmod(bin, 0o755)); err != nil {
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
		Env:   append(os.Environ(), asUser+"="+how, "HOME=/nonexistent"),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	st, err := p.Wait()
	if err != nil || !st.Success() {
		fmt.Fprintln(os.Stderr, "as an ordinary user, by", how, st, err)
		return 1
	}
	return 0
}

// box is a workspace of some owner, with an outside beside it.
type box struct {
	foreign bool // the workspace is not registered
	*testing.T
	dir     string // the workspace
	out     string // a directory beside it that nothing may touch
	owner   int
	shared  *shared
	byName  map[string]tool.Tool
	most    int64
	session palyra.SessionID
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
	b := &box{T: t, dir: filepath.Join(top, "ws"), out: filepath.Join(top, "out"), owner: owner, most: 1 << 20, session: "S"}
	b.ok(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Mkdir(b.dir, 0o755), os.Mkdir(b.out, 0o755))
	b.ok(os.WriteFile(filepath.Join(b.out, "secret"), []byte("outside"), 0o644))
	b.own(b.dir, b.out, filepath.Join(b.out, "secret"))
	b.shared = &shared{cfg: Config{}.withDefaults()}
	b.byName = toolsOf(b.shared)
	return b
}

func toolsOf(s *shared) map[string]tool.Tool {
	byName := map[string]tool.Tool{}
	for _, x := range []tool.Tool{reader{s}, lister{s}, searcher{s}, writer{s}, editor{s}, patcher{s}} {
		byName[strings.TrimPrefix(string(x.Spec().Name), "palyra.fs.")] = x
	}
	return byName
}

// compares is enough for any patch of these tests.
func compares() *int {
	n := unified.MaxCompare
	return &n
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
func (b *box) put(rel, content string, mode os.FileMode) {
	b.Helper()
	b.mkdir(filepath.Dir(rel))
	b.ok(os.WriteFile(b.path(rel), []byte(content), 0o600), os.Chmod(b.path(rel), mode))
	b.own(b.path(rel))
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
	b.ok(os.Symlink(target, b.path(rel)))
	b.own(b.path(rel))
}

func (b *box) get(rel string) string {
	b.Helper()
	got, err := os.ReadFile(b.path(rel))
	b.ok(err)
	return string(got)
}

// args are a call's arguments.
type args map[string]any

// plan resolves a call as the planner does.
func (b *box) plan(name string, a args) (palyra.Plan, error) {
	b.Helper()
	raw, err := json.Marshal(a)
	b.ok(err)
	p := palyra.Plan{
		Tool: palyra.ToolName("palyra.fs." + name), Arguments: raw, Tier: palyra.TierBuiltin,
		Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(b.owner), Known: !b.foreign}, Limits: palyra.Limits{OutputBytes: b.most},
	}
	return p, b.byName[name].Plan(b.Context(), b.env(), &p)
}

func (b *box) env() tool.Env { return tool.Env{Session: b.session, Call: "C", Asked: b.dir} }

func (b *box) runPlan(ctx context.Context, p palyra.Plan) (map[string]any, error) {
	out, err := b.byName[strings.TrimPrefix(string(p.Tool), "palyra.fs.")].Run(ctx, b.env(), p)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(out, &m)
}

// call plans and runs.
func (b *box) call(name string, a args) (map[string]any, error) {
	b.Helper()
	p, err := b.plan(name, a)
	if err != nil {
		return nil, err
	}
	return b.runPlan(b.Context(), p)
}

// must is call that has to succeed.
func (b *box) must(name string, a args) map[string]any {
	b.Helper()
	m, err := b.call(name, a)
	if err != nil {
		b.Fatalf("%s %v: %v (%v)", name, a, err, errors.Unwrap(err))
	}
	return m
}

// refused is call that has to fail with the reason, and a remedy where the
// caller can do something.
func (b *box) refused(want palyra.Reason, name string, a args) *palyra.Error {
	b.Helper()
	m, err := b.call(name, a)
	if err == nil {
		b.Fatalf("%s %v: accepted: %v", name, a, m)
	}
	e := palyra.AsError(err)
	if e.Reason != want {
		b.Errorf("%s %v: %s (%v: %v), want %s", name, a, e.Reason, e, e.Cause, want)
	}
	if strings.Contains(e.Text, "outside\n") || strings.Contains(e.Text, "TOP SECRET") {
		b.Errorf("%s: the error tells content: %s", name, e.Text)
	}
	return e
}

// tree is everything below a directory: path → mode, owner and content.
func tree(t *testing.T, dir string) map[string]string {
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
		what := fmt.Sprintf("%v uid %d gid %d", fi.Mode(), st.Uid, st.Gid)
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += " " + string(b)
		case fi.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			what += " -> " + to
		}
		rel, _ := filepath.Rel(dir, p)
		all[rel] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
