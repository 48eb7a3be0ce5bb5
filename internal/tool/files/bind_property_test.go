//go:build unix

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
)

// worldNames are the files of a drawn world.
var worldNames = []string{"a", "b", "d/a", "d/b"}

// someLines are few, so that a hunk for one content often fits another as well.
var someLines = rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"x\n", "y\n", "z\n"}), 1, 4),
	func(l []string) string { return "top\n" + strings.Join(l, "") })

// drawnCall is a call of any of the tools.
func drawnCall(t *rapid.T) (string, args) {
	from, to := rapid.SampledFrom(worldNames).Draw(t, "from"), rapid.SampledFrom([]string{"new", "d/new", "n/m/new"}).Draw(t, "to")
	hunk := "@@ -1 +1 @@\n-top\n+TOP\n"
	moves := func(how string) string {
		return fmt.Sprintf("diff --git a/%s b/%s\n%s from %s\n%s to %s\n--- a/%s\n+++ b/%s\n%s", from, to, how, from, how, to, from, to, hunk)
	}
	change := fmt.Sprintf("--- a/%s\n+++ b/%s\n%s", from, from, hunk)
	patches := []string{
		change, moves("copy"), moves("rename"), change + moves("copy"), moves("copy") + strings.ReplaceAll(moves("copy"), to, "other"),
		"--- /dev/null\n+++ b/" + to + "\n@@ -0,0 +1 @@\n+x\n",
		"diff --git a/" + from + " b/" + from + "\nold mode 100644\nnew mode 100755\n",
	}
	switch rapid.SampledFrom([]string{"patch", "patch", "write", "read"}).Draw(t, "kind") {
	case "patch":
		return "apply_patch", args{"patch": rapid.SampledFrom(patches).Draw(t, "patch")}
	case "write":
		a := args{"path": rapid.SampledFrom([]string{from, to}).Draw(t, "path"), "content": "top\nx\n", "make_dirs": true}
		if rapid.Bool().Draw(t, "says") {
			a["executable"] = rapid.Bool().Draw(t, "executable")
		}
		return "write", a
	}
	name := rapid.SampledFrom([]string{"read", "list", "search"}).Draw(t, "reading")
	a := args{"path": rapid.SampledFrom([]string{from, "link", "."}).Draw(t, "path")}
	if name == "search" {
		a["pattern"] = "x"
	}
	return name, a
}

// drawnChange changes one thing of the world: content or mode of a file or
// directory, whether it exists, where a link leads.
func drawnChange(t *rapid.T) (string, func(b *box)) {
	name, other := rapid.SampledFrom(worldNames).Draw(t, "changed"), someLines.Draw(t, "content")
	mode := rapid.SampledFrom([]os.FileMode{0o600, 0o640, 0o755, 0o664}).Draw(t, "mode")
	dir := rapid.SampledFrom([]string{".", "d"}).Draw(t, "dir")
	changes := map[string]func(b *box){
		"content": func(b *box) { b.ok(os.WriteFile(b.path(name), []byte(other), 0o600)) },
		"mode":    func(b *box) { b.ok(os.Chmod(b.path(name), mode)) },
		"removed": func(b *box) { b.ok(os.Remove(b.path(name))) },
		"made":    func(b *box) { b.put("d/new", other, mode) },
		"dirs": func(b *box) {
			b.mkdir("n/m")
			b.ok(os.Chmod(b.path("n"), 0o700|mode), os.Chmod(b.path("n/m"), 0o700|mode))
		},
		"dir":  func(b *box) { b.ok(os.Chmod(b.path(dir), 0o700|mode)) },
		"link": func(b *box) { b.ok(os.Remove(b.path("link"))); b.link(name, "link") },
	}
	kind := rapid.SampledFrom([]string{"content", "mode", "removed", "made", "dirs", "dir", "link"}).Draw(t, "change")
	return kind, changes[kind]
}

// Property: a change that a person would see in the diff changes the digest. And
// without the digest's help: a plan that runs in a changed world writes what it
// would have written in the one it was made in, content and mode, or nothing.
func TestDigestBindsWhatIsWritten(t *testing.T) {
	top := mkdir(t, filepath.Join(t.TempDir(), "w"))
	n, same, kept, refused := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		b := fuzzBox(t, mkdir(t, filepath.Join(top, fmt.Sprint(n))))
		world := map[string]string{}
		for _, name := range worldNames {
			world[name] = someLines.Draw(rt, name)
		}
		lay := func() {
			b.ok(os.RemoveAll(b.dir), os.Mkdir(b.dir, 0o755), os.Chmod(b.dir, 0o755))
			b.files(world)
			b.link("d", "link")
		}
		name, a := drawnCall(rt)
		what, change := drawnChange(rt)
		lay()
		judged, err := b.plan(name, a)
		if err != nil {
			return // not a call of this world
		}
		_, err = b.runPlan(b.Context(), judged)
		meant := b.written(judged)
		if err != nil && len(judged.Writes) > 0 {
			rt.Fatalf("%s %v: %v", name, a, err)
		}
		lay()
		change(b)
		now, err := b.plan(name, a)
		if err == nil && digestOf(b, now) == digestOf(b, judged) {
			same++
			if d := cmp.Diff(judged.Detail.Diff, now.Detail.Diff); d != "" {
				rt.Fatalf("%s %v: after a change of %s the digest is the same, the diff is not: %s", name, a, what, d)
			}
		}
		before := b.written(judged)
		if _, err = b.runPlan(b.Context(), judged); err != nil {
			refused++
			meant = before
		} else {
			kept++
		}
		if d := cmp.Diff(meant, b.written(judged)); d != "" {
			rt.Fatalf("%s %v: after a change of %s (%v) it wrote otherwise: %s", name, a, what, err, d)
		}
	})
	if same == 0 || kept == 0 || refused == 0 {
		t.Errorf("one-sided: %d digests the same, %d ran, %d refused", same, kept, refused)
	}
}

func digestOf(b *box, p palyra.Plan) palyra.Digest {
	b.Helper()
	d, err := p.Digest()
	b.ok(err)
	return d
}

// written is the state of the files that a plan writes.
func (b *box) written(p palyra.Plan) map[string]string {
	b.Helper()
	all, got := tree(b.T, b.dir), map[string]string{}
	for _, rel := range p.Writes {
		got[rel] = all[rel]
	}
	return got
}
