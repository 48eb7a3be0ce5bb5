//go:build unix

package gitrepo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// project is a directory with a repository that git made.
type project struct {
	t   testing.TB
	dir string
}

func newProject(t testing.TB, args ...string) *project {
	t.Helper()
	p := &project{t, t.TempDir()}
	p.git(append([]string{"init", "-q", "-b", "main"}, args...)...)
	return p
}

// git runs git with nobody's configuration.
func (p *project) git(args ...string) string {
	p.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = p.dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (p *project) file(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

// grow makes commits, with files that differ little, so that packs have deltas.
func (p *project) grow(n int) {
	p.t.Helper()
	for i := range n {
		for j := range 20 {
			p.file(fmt.Sprintf("dir%d/sub/file%d", j%5, j), strings.Repeat("line\n", 50)+strconv.Itoa(i*j%5))
		}
		p.file("strange \xff name", strconv.Itoa(i))
		p.git("add", ".")
		p.git("commit", "-q", "-m", strconv.Itoa(i))
	}
}

func (p *project) open(dir string) *Repository {
	p.t.Helper()
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := Open(p.t.Context(), Root(root), dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { r.Close(); _ = root.Close() })
	return r
}

// index is what the reader finds, as git lists it.
func index(t testing.TB, r *Repository) string {
	t.Helper()
	var out strings.Builder
	if err := r.Index(func(p []byte, e IndexEntry) error {
		_, err := fmt.Fprintf(&out, "%06o %s 0\t%s\x00", e.Mode, e.ID, p)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// walk lists a tree like git ls-tree -r.
func walk(t testing.TB, r *Repository, id ID, at string, out *strings.Builder) {
	t.Helper()
	entries, err := r.Tree(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsTree() {
			walk(t, r, e.ID, at+e.Name+"/", out)
			continue
		}
		fmt.Fprintf(out, "%06o blob %s\t%s\x00", e.Mode, e.ID, at+e.Name)
	}
}

// agrees holds everything that the reader says against git.
func (p *project) agrees(dir string) {
	p.t.Helper()
	r := p.open(dir)
	if got, want := index(p.t, r), p.git("ls-files", "-s", "-z"); got != want {
		p.t.Errorf("the index is %q, git says %q", got, want)
	}
	refs, err := r.Refs()
	if err != nil {
		p.t.Fatal(err)
	}
	want := map[string]ID{}
	for l := range strings.Lines(p.git("show-ref", "--head")) {
		id, name, _ := strings.Cut(strings.TrimSpace(l), " ")
		want[name], _ = r.id(id)
	}
	if !maps.Equal(refs, want) {
		p.t.Errorf("refs are %v, git says %v", refs, want)
	}
	for l := range strings.Lines(p.git("log", "--format=%H %T %ct %P", "--all")) {
		f := strings.Fields(l)
		id, _ := r.id(f[0])
		c, err := r.Commit(id)
		if err != nil {
			p.t.Fatal(err)
		}
		got := []string{id.String(), c.Tree.String(), strconv.FormatInt(c.When, 10)}
		for _, up := range c.Parents {
			got = append(got, up.String())
		}
		if strings.Join(got, " ") != strings.Join(f, " ") {
			p.t.Errorf("commit %v, git says %v", got, f)
		}
		var tree strings.Builder
		walk(p.t, r, c.Tree, "", &tree)
		if want := p.git("ls-tree", "-r", "-z", f[0]); tree.String() != want {
			p.t.Errorf("the tree of %s is %q, git says %q", id, tree.String(), want)
		}
	}
}

func TestAgreesWithGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			p := newProject(t, "--object-format="+format)
			p.grow(3)
			p.git("tag", "-a", "-m", "x", "v1", "HEAD~1")
			p.git("tag", "light")
			p.agrees(".git")
			p.git("gc", "-q")
			p.file("after", "gc")
			p.git("add", "after")
			p.git("commit", "-q", "-m", "after")
			p.git("update-index", "--index-version=4")
			p.agrees(".git")
			p.git("update-index", "--index-version=3", "--skip-worktree", "after")
			p.agrees(".git")
			r := p.open(".git")
			refs, err := r.Refs()
			if err != nil {
				t.Fatal(err)
			}
			if to, commit, err := r.Peel(refs["refs/tags/v1"]); err != nil || !commit || to.String() != p.git("rev-parse", "v1^{commit}") {
				t.Errorf("the tag leads to %s, %v, %v", to, commit, err)
			}
		})
	}
}

func TestWorktree(t *testing.T) {
	p := newProject(t)
	p.grow(1)
	p.git("worktree", "add", "-q", "-b", "side", "w")
	r := p.open(".git/worktrees/w")
	refs, err := r.Refs()
	if err != nil || len(refs) != 1 || refs["HEAD"].String() != p.git("rev-parse", "side") {
		t.Errorf("%v, %v", refs, err)
	}
	if _, err := r.Commit(refs["HEAD"]); err != nil {
		t.Error(err)
	}
}

// What a stranger can make of a repository is refused or read as it is, and never
// leads out of the workspace, waits or takes more than is there.
func TestHostileRepositories(t *testing.T) {
	outside := newProject(t)
	outside.file("a/b", "c")
	outside.git("add", ".")
	outside.git("commit", "-q", "-m", "x")
	for name, make := range map[string]func(p *project){
		"commondir outside":  func(p *project) { p.file(".git/commondir", outside.dir+"/.git\n") },
		"commondir above":    func(p *project) { p.file(".git/commondir", "../../"+filepath.Base(outside.dir)+"/.git\n") },
		"index cut short":    func(p *project) { p.cut(".git/index", 40) },
		"index without end":  func(p *project) { p.file(".git/index", "DIRC\x00\x00\x00\x02\xff\xff\xff\xff") },
		"index of rubbish":   func(p *project) { p.file(".git/index", "rubbish and more rubbish") },
		"index is a pipe":    func(p *project) { p.pipe(".git/index") },
		"split index":        func(p *project) { p.git("update-index", "--split-index") },
		"a ref is a pipe":    func(p *project) { p.pipe(".git/refs/heads/x") },
		"a ref is endless":   func(p *project) { p.file(".git/refs/heads/x", strings.Repeat("a", 10_000)) },
		"links out":          func(p *project) { p.link(".git/refs/heads/x", outside.dir+"/.git/HEAD") },
		"reftable":           func(p *project) { p.git("config", "extensions.refstorage", "reftable") },
		"objects elsewhere":  func(p *project) { p.alternate(outside.dir) },
		"object of a bomb":   func(p *project) { p.damage(func([]byte) []byte { return bomb() }) },
		"object cut short":   func(p *project) { p.damage(func(b []byte) []byte { return b[:len(b)/2] }) },
		"object of nothing":  func(p *project) { p.damage(func([]byte) []byte { return nil }) },
		"object of mismatch": func(p *project) { p.damage(func([]byte) []byte { return packed("tree 5\x00rubbish") }) },
	} {
		t.Run(name, func(t *testing.T) {
			p := &project{t, t.TempDir()}
			if err := os.CopyFS(p.dir, os.DirFS(outside.dir)); err != nil {
				t.Fatal(err)
			}
			make(p)
			root, err := os.OpenRoot(p.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }()
			if err := everything(t.Context(), root); err == nil {
				t.Error("it was read")
			}
		})
	}
}

// everything reads whatever refs lead to.
func everything(ctx context.Context, root *os.Root) error {
	r, err := Open(ctx, Root(root), ".git")
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Index(func([]byte, IndexEntry) error { return nil }); err != nil {
		return err
	}
	refs, err := r.Refs()
	for _, id := range refs {
		at, commit, e := r.Peel(id)
		if err = errors.Join(err, e); err != nil || !commit {
			return errors.Join(err, errors.New("no commit"))
		}
		c, e := r.Commit(at)
		if err = errors.Join(err, e); err != nil {
			return err
		}
		_, e = r.Tree(c.Tree)
		err = errors.Join(err, e)
	}
	return err
}

// FuzzIndex holds the reader of indexes to ending.
func FuzzIndex(f *testing.F) {
	p := newProject(f)
	p.grow(1)
	b, err := os.ReadFile(filepath.Join(p.dir, ".git/index"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	binary.BigEndian.PutUint32(b[4:], 4)
	f.Add(b)
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "HEAD"), nil, 0o644); err != nil {
		f.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Open(t.Context(), Root(root), ".")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "index"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		err = r.Index(func(p []byte, e IndexEntry) error {
			if len(p) > maxPath || len(e.ID) != 20 {
				t.Errorf("%q %q", p, e.ID)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrUnreadable) && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

// FuzzPatch holds the reader of deltas to what it is given.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("base text"), []byte{9, 12, 0x91, 2, 4, 3, 'a', 'b', 'c'})
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		r := &Repository{left: maxUnpacked}
		o, err := r.patched(object{"blob", base}, [][]byte{delta})
		if err == nil && len(o.data) > maxObject {
			t.Error(len(o.data))
		}
	})
}

// FuzzPack holds the reader of packs to the pack.
func FuzzPack(f *testing.F) {
	f.Add([]byte("\x95\x0a" + string(packed("text"))))
	f.Add([]byte("\x60\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		data, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = data.Close() }()
		r := &Repository{left: 1 << 20, width: 20}
		kind, base, out, err := r.item(&pack{data: data, size: int64(len(b)), width: 20}, 0)
		if err == nil && (base < 0 || kind == 0 || int64(len(out)) > 1<<20+20 || bytes.Equal(out, b)) {
			t.Errorf("kind %d, base %d, %d bytes", kind, base, len(out))
		}
	})
}
