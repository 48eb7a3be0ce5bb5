package seal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
)

const testCall = palyra.CallID("01JZZZZZZZZZZZZZZZZZZZZZZZ")

// box is a workspace with something beside it that must never be touched.
type box struct {
	t          testing.TB
	ws         string
	out        string // beside the workspace
	quarantine string
}

func newBox(t testing.TB) *box {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	b := &box{t: t, ws: filepath.Join(top, "ws"), out: filepath.Join(top, "out"), quarantine: filepath.Join(top, "quarantine")}
	for _, d := range []string{b.ws, b.out, b.quarantine} {
		must(t, os.Mkdir(d, 0o700))
	}
	must(t, os.MkdirAll(filepath.Join(b.out, "victim/.git/hooks"), 0o700))
	must(t, os.WriteFile(filepath.Join(b.out, "victim/.envrc"), []byte("outside"), 0o600))
	t.Cleanup(func() { // whatever modes a test leaves
		_ = filepath.WalkDir(top, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
	})
	return b
}

// file makes files, directories (with a slash) and links (with an arrow).
func (b *box) file(paths ...string) {
	b.t.Helper()
	for _, p := range paths {
		if p, to, ok := strings.Cut(p, " -> "); ok {
			must(b.t, os.Symlink(to, b.in(p)))
			continue
		}
		dir, isDir := strings.CutSuffix(p, "/")
		if !isDir {
			dir = filepath.Dir(p)
		}
		must(b.t, os.MkdirAll(b.in(dir), 0o700))
		if !isDir {
			must(b.t, os.WriteFile(b.in(p), []byte(p), 0o600))
		}
	}
}

func (b *box) in(p string) string { return filepath.Join(b.ws, p) }

func (b *box) exists(p string) bool {
	_, err := os.Lstat(b.in(p))
	return err == nil
}

func (b *box) scan() *Snapshot {
	b.t.Helper()
	s, err := Scan(b.t.Context(), b.ws, Default, Limits{settle: -1})
	must(b.t, err)
	return s
}

func (b *box) sweep(s *Snapshot) []string {
	b.t.Helper()
	made, err := s.Sweep(b.t.Context(), b.quarantine, testCall)
	must(b.t, err)
	slices.Sort(made)
	return made
}

// intact fails when anything beside the workspace changed.
func (b *box) intact() {
	b.t.Helper()
	for _, p := range []string{"victim/.git/hooks", "victim/.envrc"} {
		if _, err := os.Lstat(filepath.Join(b.out, p)); err != nil {
			b.t.Errorf("outside the workspace: %v", err)
		}
	}
}

func repoIn(dir string) []string {
	var out []string
	for _, p := range []string{"HEAD", "config", "hooks/pre-commit", "objects/", "refs/heads/main", "info/exclude"} {
		out = append(out, dir+"/"+p)
	}
	return out
}

func seals(s *Snapshot) []string {
	var out []string
	for _, m := range s.Mounts() {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		out = append(out, mode+" "+m.Path)
	}
	return out
}

func TestMounts(t *testing.T) {
	b := newBox(t)
	b.file(repoIn(".git")...)
	b.file(repoIn(".git/modules/lib")...)
	b.file(repoIn("test/data.git")...)
	b.file("lib/.git", ".envrc", "a/b/.vscode/tasks.json", "a/c/plain", "node_modules/x/.vscode/x", "node_modules/x/.envrc",
		"node_modules/y/.git/config", ".git/modules/lib/refs/heads/hooks/x", ".git/worktrees/w/commondir", ".git/worktrees/w/HEAD",
		".github/workflows/ci.yml", ".github/README", "p.code-workspace")
	s := b.scan()
	want := []string{
		"ro .envrc", "rw .git", "ro .git/config", "ro .git/hooks", "rw .git/modules", "rw .git/modules/lib", "ro .git/modules/lib/config",
		"ro .git/modules/lib/hooks", "rw .git/worktrees", "rw .git/worktrees/w", "ro .git/worktrees/w/commondir",
		"rw .github", "ro .github/workflows", "rw a", "rw a/b", "ro a/b/.vscode", "rw lib", "ro lib/.git",
		"rw node_modules", "rw node_modules/y", "rw node_modules/y/.git", "ro node_modules/y/.git/config",
		"ro p.code-workspace", "rw test", "rw test/data.git", "ro test/data.git/config", "ro test/data.git/hooks",
	}
	if d := cmp.Diff(want, seals(s)); d != "" {
		t.Error(d)
	}
	for _, m := range s.Mounts() {
		var st unix.Stat_t
		must(t, unix.Lstat(b.in(m.Path), &st))
		if st.Dev != m.Dev || st.Ino != m.Ino {
			t.Errorf("%s: identity %d:%d, want %d:%d", m.Path, m.Dev, m.Ino, st.Dev, st.Ino)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name  string
		make  func(*box)
		limit Limits
		want  string
	}{
		{"hard link", func(b *box) { b.file(".envrc"); must(b.t, os.Link(b.in(".envrc"), b.in("other"))) }, Limits{}, `".envrc"`},
		{"hard link below", func(b *box) {
			b.file(".git/hooks/x/y", "z")
			must(b.t, os.Link(b.in(".git/hooks/x/y"), b.in("other")))
		}, Limits{}, `".git/hooks/x/y"`},
		{"entries", func(b *box) { b.file("a", "b", "c", "d/e") }, Limits{Entries: 4}, "more than 4 files"},
		{"sealed", func(b *box) { b.file("a/.envrc", "b/.envrc", "c/.envrc") }, Limits{Sealed: 2}, "3 sealed paths"},
		{"deep", func(b *box) { deepTree(b, 20, strings.Repeat("d", 250)) }, Limits{}, "too deeply"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			test.make(b)
			_, err := Scan(t.Context(), b.ws, Default, test.limit)
			e := palyra.AsError(err)
			if e.Reason != palyra.ReasonSealDenied || !strings.Contains(e.Text, test.want) || e.Remedy == "" {
				t.Errorf("%v: reason %s, remedy %q; want a text with %q", err, e.Reason, e.Remedy, test.want)
			}
		})
	}
}

// deepTree makes directories one in another, deeper than any path can say, and
// returns a descriptor on the last.
func deepTree(b *box, n int, name string) {
	b.t.Helper()
	dir, err := unix.Open(b.ws, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(b.t, err)
	for range n {
		must(b.t, unix.Mkdirat(dir, name, 0o700))
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(b.t, err)
		_ = unix.Close(dir)
		dir = next
	}
	must(b.t, unix.Mkdirat(dir, ".git", 0o700))
	_ = unix.Close(dir)
}

func TestASecondNameElsewhereIsNoMatterOutsideOfSeals(t *testing.T) {
	b := newBox(t)
	b.file("a", ".palyra/quarantine/X/000001", ".envrc")
	must(t, os.Link(b.in("a"), b.in("b")))
	must(t, os.Link(b.in(".palyra/quarantine/X/000001"), b.in("c")))
	b.scan()
}

func TestSweep(t *testing.T) {
	for _, test := range []struct {
		name   string
		before []string
		during func(*box)
		want   []string
	}{
		{"nothing", []string{"a", ".envrc"}, func(b *box) { b.file("b", "c/d") }, nil},
		{"a repository", []string{"a"}, func(b *box) { b.file(repoIn("sub/.git")...) }, []string{"sub/.git"}},
		{"a file .git", []string{"a"}, func(b *box) { b.file("x/y/.git") }, []string{"x/y/.git"}},
		{"a link .git", []string{"a"}, func(b *box) { b.file(".git -> " + b.out + "/victim/.git") }, []string{".git"}},
		{"hooks in an old repository", []string{".git/HEAD"}, func(b *box) {
			b.file(".git/hooks/pre-commit", ".git/commondir",
				".git/info/attributes")
		}, []string{".git/commondir", ".git/hooks", ".git/info/attributes"}},
		{"where an old repository fetches from", []string{".git/HEAD"}, func(
			b *box,
		) {
			b.file(".git/remotes/origin", ".git/branches/origin", ".git/refs/remotes/origin/main")
		}, []string{".git/branches", ".git/remotes"}},
		{"a fifo", nil, func(b *box) { must(b.t, unix.Mkfifo(b.in(".envrc"), 0o600)) }, []string{".envrc"}},
		{"a bare repository", nil, func(b *box) { b.file(repoIn("new")...) }, []string{"new"}},
		{
			"a directory becomes a repository",
			[]string{"src/main.go"},
			func(b *box) { b.file(repoIn("src")...) },
			[]string{"src/HEAD", "src/config", "src/hooks"},
		},
		{
			"the workspace becomes a repository",
			[]string{"main.go"},
			func(b *box) { b.file("HEAD", "objects/", "refs/", "config") },
			[]string{"HEAD", "config"},
		},
		{"half a repository with its other half elsewhere", nil, func(b *box) { b.file("w/HEAD", "w/commondir", "other/config") }, []string{"w"}},
		{
			"a worktree of a submodule",
			[]string{".git/HEAD"},
			func(b *box) { b.file(".git/modules/a/b/hooks/x") },
			[]string{".git/modules/a/b/hooks"},
		},
		{"refs that hide", []string{".git/HEAD", ".git/modules/m/"}, func(b *box) {
			b.file(".git/modules/m/HEAD", ".git/modules/m/objects/", ".git/modules/m/refs/config")
		}, []string{".git/modules/m/HEAD", ".git/modules/m/refs/config"}},
		{
			"other spellings", nil, func(b *box) { b.file(".GIT/x", ".vſcode/tasks.json", ".g\u200cit", ".envrc.") },
			[]string{".GIT", ".envrc.", ".g\u200cit", ".vſcode"},
		},
		{
			"odd names", nil, func(b *box) { b.file("a\nb/.envrc", "\xff\xfe/.envrc", "-rf/.envrc", "*/.envrc") },
			[]string{"*/.envrc", "-rf/.envrc", "a\nb/.envrc", "\xff\xfe/.envrc"},
		},
		{"in node_modules", nil, func(b *box) { b.file("node_modules/x/.git", "node_modules/x/.vscode/y") }, []string{"node_modules/x/.git"}},
		{"ours", nil, func(b *box) { b.file(".palyra/quarantine/x/.git") }, []string{".palyra"}},
		{"one renamed to be one", []string{"src/x"}, func(b *box) { must(b.t, os.Rename(b.in("src"), b.in(".vscode"))) }, []string{".vscode"}},
		{"unreadable", nil, func(b *box) {
			b.file("shut/in/.git/config")
			must(b.t, os.Chmod(b.in("shut/in/.git"), 0))
			must(b.t, os.Chmod(b.in("shut/in"), 0o500))
			must(b.t, os.Chmod(b.in("shut"), 0))
		}, []string{"shut/in/.git"}},
		{"no passing", nil, func(b *box) { b.file("shut/in/.git/config"); must(b.t, os.Chmod(b.in("shut"), 0o400)) }, []string{"shut/in/.git"}},
		{"a second name of a file", []string{"a"}, func(b *box) { must(b.t, os.Link(b.in("a"), b.in(".envrc"))) }, []string{".envrc"}},
		{"changed", []string{".envrc", ".git/hooks/x"}, func(b *box) {
			must(b.t, os.WriteFile(b.in(".envrc"), []byte("new"), 0o600))
			b.file(".git/hooks/y")
		}, []string{"/changed: .envrc", "/changed: .git/hooks", "/changed: .git/hooks/y"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBox(t)
			b.file(test.before...)
			s := b.scan()
			test.during(b)
			modes := modesOf(b)
			made := b.sweep(s)
			if d := cmp.Diff(test.want, made); d != "" {
				t.Fatal(d)
			}
			for p, mode := range modes {
				if fi, err := os.Lstat(b.in(p)); err == nil && fi.Mode() != mode {
					t.Errorf("%s: mode %v, want %v", p, fi.Mode(), mode)
				}
			}
			b.penned(made)
			b.intact()
			if again := b.sweep(s); again != nil {
				t.Errorf("a second sweep: %q", again)
			}
		})
	}
}

// modesOf are the modes of what can be listed at the top.
func modesOf(b *box) map[string]os.FileMode {
	m := map[string]os.FileMode{}
	entries, err := os.ReadDir(b.ws)
	must(b.t, err)
	for _, e := range entries {
		fi, err := e.Info()
		must(b.t, err)
		m[e.Name()] = fi.Mode()
	}
	return m
}

// penned fails unless what was made is in quarantine, indexed, and not in the
// workspace.
func (b *box) penned(made []string) {
	b.t.Helper()
	want := map[string]bool{}
	for _, p := range made {
		if _, changed := Changed(p); changed {
			continue
		}
		want[p] = true
		if b.exists(p) {
			b.t.Errorf("%q is still there", p)
		}
	}
	f, err := os.Open(filepath.Join(b.quarantine, string(testCall), quarantine.IndexName))
	if errors.Is(err, os.ErrNotExist) && len(want) == 0 {
		return
	}
	must(b.t, err)
	defer f.Close()
	items, err := quarantine.ReadIndex(f)
	must(b.t, err)
	got := map[string]bool{}
	for _, i := range items {
		got[i.Path] = true
		item := filepath.Join(b.quarantine, string(testCall), i.Item)
		box, err := os.Lstat(item)
		must(b.t, err)
		if box.Mode() != os.ModeDir || i.Bytes <= 0 {
			b.t.Errorf("%s: %v, %d bytes", i.Item, box.Mode(), i.Bytes)
		}
		must(b.t, os.Chmod(item, 0o700))
		fi, err := os.Lstat(filepath.Join(item, quarantine.ItemName))
		if err != nil {
			b.t.Errorf("%s: %v", i.Item, err)
		} else if want := i.Mode & unix.S_IFMT; (want == unix.S_IFDIR) != fi.IsDir() && filepath.Base(i.Path) != "HEAD" {
			b.t.Errorf("%s: type %v, want %o", i.Path, fi.Mode(), want)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		b.t.Error(d)
	}
}

func TestSweepMovesWhatIsTooDeep(t *testing.T) {
	b := newBox(t)
	b.file(".envrc")
	s := b.scan()
	deepTree(b, 400, strings.Repeat("d", 200))
	made := b.sweep(s)
	if len(made) != 1 || len(made[0]) <= maxPath {
		t.Fatalf("%d made", len(made))
	}
	b.scan()
}

func TestSweepOfVeryMany(t *testing.T) {
	b := newBox(t)
	s := b.scan()
	for i := range maxMade + 50 {
		b.file(fmt.Sprintf("d%d/.envrc", i))
	}
	made := b.sweep(s)
	if len(made) != maxMade+1 || !slices.Contains(made, "/more: 50") {
		t.Errorf("%d made", len(made))
	}
	for i := range maxMade + 50 {
		if b.exists(fmt.Sprintf("d%d/.envrc", i)) {
			t.Fatalf("d%d/.envrc is still there", i)
		}
	}
}
