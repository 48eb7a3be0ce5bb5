//go:build unix

package files

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// git runs git in a directory, with nobody's settings.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "core.autocrlf=false", "-c", "user.name=x", "-c", "user.email=x@x", "-c",
		"diff.renames=true", "-c", "safe.directory=*",
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// world is a small tree: path → content, with a mark for executables.
func worlds() *rapid.Generator[map[string]string] {
	content := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "dd\n", "\n", "-- \n", "+x\n", "- y\n", "é\n"}), 1,
			25).Draw(t, "lines"), "")
		if rapid.IntRange(0, 4).Draw(t, "cut") == 0 {
			s = strings.TrimSuffix(s, "\n") + "end"
		}
		return s
	})
	return rapid.MapOfN(rapid.SampledFrom([]string{"f", "g", "d/f", "d/e/g", "sp ace", "ü", "q\"uote", "b/a", "x.sh"}), content, 1, 6)
}

func lay(t *testing.T, dir string, w map[string]string, exec bool) {
	t.Helper()
	for p, content := range w {
		mode := os.FileMode(0o644)
		if exec && strings.HasSuffix(p, ".sh") {
			mode = 0o755
		}
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Property: the diff that git makes between two trees, applied by us to the
// first, gives the second: contents, execute permission, files made, renamed
// and deleted.
func TestPatchesOfGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("UNPROVEN HERE: git is not installed: %v", err)
	}
	top := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > 25 { // git takes its time
			return
		}
		one, two := worlds().Draw(rt, "one"), worlds().Draw(rt, "two")
		if rapid.Bool().Draw(rt, "rename") {
			for p, content := range one {
				delete(two, p)
				two["moved/"+p] = content + "more\n"
				break
			}
		}
		dir := filepath.Join(top, fmt.Sprint(n))
		b := fuzzBox(t, mkdir(t, dir))
		b.ok(os.RemoveAll(b.dir), os.Mkdir(b.dir, 0o755))
		repo := mkdir(t, filepath.Join(dir, "repo"))
		git(t, repo, "init", "-q")
		lay(t, repo, one, false)
		git(t, repo, "add", "-A")
		git(t, repo, "commit", "-q", "-m", "one")
		git(t, repo, "rm", "-rq", ".")
		lay(t, repo, two, true)
		git(t, repo, "add", "-A")
		patch := git(t, repo, "diff", "--cached", "-M30%")
		if patch == "" {
			return
		}
		lay(t, b.dir, one, false)
		if _, err := b.call("apply_patch", args{"patch": patch}); err != nil {
			t.Fatalf("%v\n%s", err, patch)
		}
		if d := cmp.Diff(two, b.contents()); d != "" {
			t.Fatalf("%s\n%s", d, patch)
		}
		for p := range two {
			want, _ := os.Stat(filepath.Join(repo, p))
			if got, _ := b.stat(p); got.Mode() != want.Mode() {
				t.Fatalf("%s has mode %v, not %v\n%s", p, got.Mode(), want.Mode(), patch)
			}
		}
	})
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
