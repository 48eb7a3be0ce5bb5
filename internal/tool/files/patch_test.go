//go:build unix

package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"znkr.io/diff/textdiff"

	"palyra"
	"palyra/internal/tool/files/unified"
)

const before = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"

func (b *box) files(m map[string]string) {
	for p, content := range m {
		b.put(p, content, 0o644)
	}
}

// contents is the regular files of the workspace.
func (b *box) contents() map[string]string {
	b.Helper()
	got := map[string]string{}
	for p := range tree(b.T, b.dir) {
		if fi, err := os.Lstat(b.path(p)); err == nil && fi.Mode().IsRegular() {
			got[p] = b.get(p)
		}
	}
	return got
}

func TestPatch(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  map[string]string
	}{
		"plain": {
			"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
			map[string]string{"f": strings.Replace(before, "two", "2", 1), "g": "g\n"},
		},
		"without prefixes, with times": {
			"--- f\t2024-01-01 10:00:00 +0000\n+++ f\t2024-01-02 10:00:00 +0000\n@@ -8 +8,2 @@\n eight\n+nine\n",
			map[string]string{"f": before + "nine\n", "g": "g\n"},
		},
		"absolute commentary before, line number off": {
			"Here is the patch:\n\n--- a/f\n+++ b/f\n@@ -100,2 +100,2 @@\n six\n-seven\n+7\n",
			map[string]string{"f": strings.Replace(before, "seven", "7", 1), "g": "g\n"},
		},
		"no newline at the end of the patch": {
			"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+h",
			map[string]string{"f": before, "g": "h\n"},
		},
		"several files, several hunks": {
			"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n-one\n two\n@@ -7,2 +6,3 @@\n seven\n+7.5\n " +
				"eight\ndiff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+G\n",
			map[string]string{"f": "two\nthree\nfour\nfive\nsix\nseven\n7.5\neight\n", "g": "G\n"},
		},
		"create and delete": {
			"--- /dev/null\n+++ b/new/dir/n\n@@ -0,0 +1,2 @@\n+a\n+b\n--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n",
			map[string]string{"f": before, "new/dir/n": "a\nb\n"},
		},
		"rename with a change": {
			"diff --git a/f b/h\nsimilarity index 90%\nrename from f\nrename to h\n--- a/f\n+++ b/h\n@@ -1 +1 @@\n-one\n+1\n",
			map[string]string{"h": strings.Replace(before, "one", "1", 1), "g": "g\n"},
		},
		"copy": {
			"diff --git a/g b/h\nsimilarity index 100%\ncopy from g\ncopy to h\n",
			map[string]string{"f": before, "g": "g\n", "h": "g\n"},
		},
		"empty new file": {
			"diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n",
			map[string]string{"f": before, "g": "g\n", "e": ""},
		},
		"end of line added and taken": {
			"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+g\n\\ No newline at end of file\n",
			map[string]string{"f": before, "g": "g"},
		},
		"mail signature": {
			"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+h\n-- \n2.40.1\n",
			map[string]string{"f": before, "g": "h\n"},
		},
		"quoted name": {
			"diff --git \"a/sp \\303\\251\" \"b/sp \\303\\251\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/sp \\303\\251\"\n@@ -0,0 +1 @@\n+x\n",
			map[string]string{"f": before, "g": "g\n", "sp é": "x\n"},
		},
		"blank context line without its space": {
			"--- a/g\n+++ b/g\n@@ -1 +1,3 @@\n g\n+\n+h\n\n",
			map[string]string{"f": before, "g": "g\n\nh\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *box) {
				b.files(map[string]string{"f": before, "g": "g\n"})
				p, err := b.plan("apply_patch", args{"patch": c.patch})
				if err != nil {
					b.Fatalf("%v: %v", err, palyra.AsError(err).Cause)
				}
				if d := cmp.Diff(map[string]string{"f": before, "g": "g\n"}, b.contents()); d != "" {
					b.Errorf("planning changed files: %s", d)
				}
				if _, err = b.runPlan(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				if d := cmp.Diff(c.want, b.contents()); d != "" {
					b.Error(d)
				}
				for rel := range c.want {
					if _, st := b.stat(rel); int(st.Uid) != b.owner {
						b.Errorf("%s belongs to %d", rel, st.Uid)
					}
				}
			})
		})
	}
}

func TestPatchPlan(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.files(map[string]string{"f": before, "g": "g\n", "c": "c\n"})
	p, err := b.plan("apply_patch",
		args{"patch": "diff --git a/g b/h\nrename from g\nrename to h\ndiff --git a/f b/f\nold mode 100644\nnew mode 100755\n" +
			"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\ndiff --git a/c b/d\ncopy from c\ncopy to d\n"})
	b.ok(err)
	if !slices.Equal(p.Writes, []string{"d", "f", "g", "h"}) || !slices.Equal(p.Reads, []string{"c"}) {
		b.Errorf("writes %q, reads %q", p.Writes, p.Reads)
	}
	wantInputs := []palyra.Input{
		{Path: "c", Digest: palyra.SumBytes([]byte("c\n")), Mode: 0o644},
		{Path: "d", Mode: 0o644},
		{Path: "f", Digest: palyra.SumBytes([]byte(before)), Mode: 0o644},
		{Path: "g", Digest: palyra.SumBytes([]byte("g\n")), Mode: 0o644},
		{Path: "h", Mode: 0o644},
	}
	if d := cmp.Diff(wantInputs, p.Inputs); d != "" {
		b.Error(d)
	}
	notes := strings.Join(p.Detail.Notes, "; ")
	for _, want := range []string{"renames g to h", "copies c to d", "changes the mode of f from 0644 to 0755", "creates h"} {
		if !strings.Contains(notes, want) {
			b.Errorf("no note %q in %q", want, notes)
		}
	}
	for _, want := range []string{"--- a/g\n+++ /dev/null\n", "--- /dev/null\n+++ b/h\n", "-one\n+1\n"} {
		if !strings.Contains(p.Detail.Diff, want) {
			b.Errorf("no %q in %q", want, p.Detail.Diff)
		}
	}
	if p.Detail.Summary != "patch 4 files (+3 -2 lines)" {
		b.Error(p.Detail.Summary)
	}
	_, err = b.runPlan(t.Context(), p)
	b.ok(err)
	if fi, _ := b.stat("f"); fi.Mode() != 0o755 {
		b.Errorf("mode %v", fi.Mode())
	}
}

func TestPatchRefusals(t *testing.T) {
	hunk := "@@ -1 +1 @@\n-g\n+h\n"
	for name, c := range map[string]struct {
		patch string
		want  palyra.Reason
	}{
		"empty":               {"\n", palyra.ReasonPatchMismatch},
		"no diff":             {"please change f\n", palyra.ReasonPatchMismatch},
		"hunk alone":          {hunk, palyra.ReasonPatchMismatch},
		"context differs":     {"--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+h\n", palyra.ReasonPatchMismatch},
		"ambiguous":           {"--- a/twice\n+++ b/twice\n@@ -9 +9 @@\n-x\n+y\n", palyra.ReasonPatchMismatch},
		"counts too small":    {"--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-one\n+1\n-two\n+2\n", palyra.ReasonPatchMismatch},
		"counts too large":    {"--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n-one\n+1\n", palyra.ReasonPatchMismatch},
		"counts absurd":       {"--- a/f\n+++ b/f\n@@ -1,99999999999999999999 +1 @@\n-one\n+1\n", palyra.ReasonPatchMismatch},
		"counts negative":     {"--- a/f\n+++ b/f\n@@ -1,-1 +1,1 @@\n-one\n+1\n", palyra.ReasonPatchMismatch},
		"new file exists":     {"--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+h\n", palyra.ReasonPatchMismatch},
		"missing":             {"--- a/none\n+++ b/none\n" + hunk, palyra.ReasonFileNotFound},
		"delete leaves lines": {"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", palyra.ReasonPatchMismatch},
		"outside":             {"--- a/../out/secret\n+++ b/../out/secret\n@@ -1 +1 @@\n-outside\n+x\n", palyra.ReasonPathOutside},
		"absolute":            {"--- /etc/passwd\n+++ /etc/passwd\n" + hunk, palyra.ReasonPathOutside},
		"second file outside": {"--- a/g\n+++ b/g\n" + hunk + "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+h\n", palyra.ReasonPathOutside},
		"through a link":      {"--- a/dl/g\n+++ b/dl/g\n" + hunk, palyra.ReasonPathInvalid},
		"a link":              {"--- a/l\n+++ b/l\n" + hunk, palyra.ReasonPathInvalid},
		"makes a link": {"diff --git a/n b/n\nnew file mode 120000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No " +
			"newline at end of file\n", palyra.ReasonPatchMismatch},
		"submodule": {
			"diff --git a/n b/n\nnew file mode 160000\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+Subproject commit 1\n",
			palyra.ReasonPatchMismatch,
		},
		"binary":        {"diff --git a/g b/g\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n", palyra.ReasonPatchMismatch},
		"binary differ": {"diff --git a/g b/g\nBinary files a/g and b/g differ\n", palyra.ReasonPatchMismatch},
		"twice":         {"--- a/g\n+++ b/g\n" + hunk + "--- a/g\n+++ b/g\n" + hunk, palyra.ReasonPatchMismatch},
		"file and directory": {
			"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+h\n--- /dev/null\n+++ b/n/m\n@@ -0,0 +1 @@\n+h\n",
			palyra.ReasonPatchMismatch,
		},
		"rename onto a file": {"diff --git a/f b/g\nrename from f\nrename to g\n", palyra.ReasonPatchMismatch},
		"two names":          {"--- a/f\n+++ b/g\n" + hunk, palyra.ReasonPatchMismatch},
		"hunks out of order": {"--- a/f\n+++ b/f\n@@ -7 +7 @@\n-seven\n+7\n@@ -1 +1 @@\n-one\n+1\n", palyra.ReasonPatchMismatch},
		"line without end":   {"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+1\n\\ No newline at end of file\n", palyra.ReasonPatchMismatch},
		"a directory":        {"--- a/dir\n+++ b/dir\n" + hunk, palyra.ReasonNotRegularFile},
		"too many files":     {strings.Repeat("--- a/g\n+++ b/g\n"+hunk, unified.MaxPatchFiles+1), palyra.ReasonPatchMismatch},
		"combined diff":      {"diff --cc g\n--- a/g\n+++ b/g\n@@@ -1 -1 +1 @@@\n--g\n++h\n", palyra.ReasonPatchMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *box) {
				b.files(map[string]string{"f": before, "g": "g\n", "twice": "x\nz\nx\n", "dir/x": "x"})
				b.link("g", "l")
				b.link(".", "dl")
				all, out := tree(b.T, b.dir), tree(b.T, b.out)
				b.refused(c.want, "apply_patch", args{"patch": c.patch})
				if d := cmp.Diff(all, tree(b.T, b.dir)) + cmp.Diff(out, tree(b.T, b.out)); d != "" {
					b.Errorf("something changed: %s", d)
				}
			})
		})
	}
}

// A patch whose later files fail leaves the earlier ones as they were: at every
// step of the way, with and without the renames of newer kernels.
func TestPatchIsAllOrNothing(t *testing.T) {
	patch := "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-g\n+h\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n--- /dev/null\n+++ b/new/c\n@@ -0,0 " +
		"+1 @@\n+n\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-g\n+h\n"
	for _, d := range []disk{{}, {noExchange: true, noReplaceFlag: true}} {
		each(t, func(b *box) {
			b.shared.disk = d
			for _, rel := range []string{"a", "b", "z"} {
				b.put(rel, "g\n", 0o640)
			}
			b.shared.at = func(step string) {
				if step == "staged" { // every temporary file is there; the last one's target changes
					b.put("z", "theirs\n", 0o640)
				}
			}
			p, err := b.plan("apply_patch", args{"patch": patch})
			b.ok(err)
			if _, err = b.runPlan(b.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
				b.Errorf("%v", err)
			}
			want := map[string]string{"a": "g\n", "b": "g\n", "z": "theirs\n"}
			if d := cmp.Diff(want, b.contents()); d != "" || len(tree(b.T, b.dir)) != 4 {
				b.Errorf("%s\n%v", d, tree(b.T, b.dir))
			}
			b.shared.at = nil
			b.put("z", "g\n", 0o640)
			b.must("apply_patch", args{"patch": patch})
			want = map[string]string{"a": "h\n", "new/c": "n\n", "z": "h\n"}
			if d := cmp.Diff(want, b.contents()); d != "" {
				b.Error(d)
			}
		})
	}
}

func TestPatchEndsWithItsContext(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("g", "g\n", 0o644)
	p, err := b.plan("apply_patch", args{"patch": "--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+h\n"})
	b.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.runPlan(ctx, p); err == nil || b.get("g") != "g\n" {
		t.Errorf("%v, %q", err, b.get("g"))
	}
}

// A patch that needs too much searching is refused in bounded time.
func TestHostileSearch(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", strings.Repeat("\n", 400_000), 0o644)
	var patch strings.Builder
	const n = 100_000
	fmt.Fprintf(&patch, "--- a/f\n+++ b/f\n@@ -300001,%d +300001,%d @@\n", n+1, n)
	patch.WriteString(strings.Repeat(" \n", n) + "-x\n")
	b.refused(palyra.ReasonPatchMismatch, "apply_patch", args{"patch": patch.String()})
}

// Property: the diff of two texts, applied to the first, gives the second.
func TestPatchInvertsDiff(t *testing.T) {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a\n", "b\n", "c\n", "\n", "- x\n", "+++ y\n", "--- z\n", "@@ -1 +1 @@\n", "\\ q\n",
		"é\r\n", "-- \n",
	}), 0, 30)
	rapid.Check(t, func(t *rapid.T) {
		x, y := strings.Join(lines.Draw(t, "x"), ""), strings.Join(lines.Draw(t, "y"), "")
		if rapid.Bool().Draw(t, "cut") {
			x, y = strings.TrimSuffix(x, "\n"), strings.TrimSuffix(y, "\n")
		}
		if x == y {
			return
		}
		text := "--- a/f\n+++ b/f\n" + textdiff.Unified(x, y)
		diffs, err := unified.Parse(text)
		if err != nil || len(diffs) != 1 {
			t.Fatalf("%q: %v", text, err)
		}
		got, _, err := unified.Apply("f", []byte(x), diffs[0].Hunks, compares())
		if err != nil || string(got) != y {
			t.Fatalf("%q: %q, %v, want %q", text, got, err, y)
		}
	})
}

// Property: whatever the patch, nothing outside the workspace changes; what is
// refused changes nothing inside either; what is done changes only what the plan
// said it would write; and no temporary file stays.
func FuzzApplyPatch(f *testing.F) {
	for _, s := range []string{
		"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
		"--- /dev/null\n+++ b/../../x\n@@ -0,0 +1 @@\n+a\n",
		"diff --git a/f b/l/x\nrename from f\nrename to l/x\n",
		"diff --git a/g b/../out/secret\ncopy from g\ncopy to ../out/secret\n",
		"--- a/l/secret\n+++ /dev/null\n@@ -1 +0,0 @@\n-outside\n\\ No newline at end of file\n",
		"--- /dev/null\n+++ b/n/m/o\n@@ -0,0 +1 @@\n+a\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-g\n+h\n",
		"diff --git \"a/\\000\" \"b/\\000\"\nnew file mode 100755\n",
	} {
		f.Add(s)
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, patch string) {
		if len(patch) > patchInput {
			return
		}
		dir, err := os.MkdirTemp(top, "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		b := fuzzBox(t, dir)
		inside, outside := tree(t, b.dir), tree(t, b.out)
		p, err := b.plan("apply_patch", args{"patch": strings.ToValidUTF8(patch, "?")})
		if err == nil {
			_, err = b.runPlan(t.Context(), p)
		}
		if d := cmp.Diff(outside, tree(t, b.out)); d != "" {
			t.Fatalf("outside: %s", d)
		}
		now := tree(t, b.dir)
		if err != nil {
			if d := cmp.Diff(inside, now); d != "" {
				t.Fatalf("refused (%v), yet changed: %s", err, d)
			}
			return
		}
		for rel := range now {
			_, was := inside[rel]
			fi, _ := os.Lstat(b.path(rel))
			if now[rel] != inside[rel] && !fi.IsDir() && !slices.Contains(p.Writes, rel) ||
				strings.HasPrefix(filepath.Base(rel), ".palyra-") && !was {
				t.Fatalf("%s was not planned: %q, writes %q", rel, now[rel], p.Writes)
			}
		}
		for rel := range inside {
			if _, still := now[rel]; !still && !slices.Contains(p.Writes, rel) {
				t.Fatalf("%s is gone; writes %q", rel, p.Writes)
			}
		}
	})
}

// Property: no text makes the parser or the applier fail other than by refusing,
// and what they make of a file is made of its lines and the patch's.
func FuzzPatchText(f *testing.F) {
	f.Add("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
	f.Add("diff --git a/x b/y\nrename from x\nrename to y\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n")
	f.Add("--- \"a/\\\n+++ \"\n@@ -1 +1 @@\n")
	f.Fuzz(func(t *testing.T, text string) {
		diffs, err := unified.Parse(text)
		if err != nil {
			if palyra.AsError(err).Reason != palyra.ReasonPatchMismatch {
				t.Fatal(err)
			}
			return
		}
		for _, d := range diffs {
			got, _, err := unified.Apply("f", []byte(before), d.Hunks, compares())
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(got)) {
				if !strings.Contains(before, line) && !strings.Contains(text+"\n", strings.TrimSuffix(line, "\n")) {
					t.Fatalf("%q comes from nowhere", line)
				}
			}
		}
	})
}

func fuzzBox(t *testing.T, top string) *box {
	top, err := filepath.EvalSymlinks(top)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{T: t, dir: filepath.Join(top, "ws"), out: filepath.Join(top, "out"), owner: os.Geteuid(), most: 1 << 20}
	b.shared = &shared{cfg: Config{MaxFile: 1 << 20}.withDefaults()}
	b.byName = toolsOf(b.shared)
	b.ok(os.Mkdir(b.dir, 0o755), os.Mkdir(b.out, 0o755), os.WriteFile(filepath.Join(b.out, "secret"), []byte("outside"), 0o644))
	b.files(map[string]string{"f": before, "g": "g\n", "d/x": "x\n"})
	b.link("../out", "l")
	return b
}

// Nor does a patch tell, in a directory that nobody registered, whether it fits: the
// lines of a file could be tried one after the other. It fails when it was let run.
func TestPatchTellsNothingUnasked(t *testing.T) {
	each(t, func(b *box) {
		b.foreign = true
		b.put("f", "one\ntwo\n", 0o640)
		for name, patch := range map[string]string{
			"fits":         "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n",
			"another line": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-ten\n+1\n two\n",
			"deletes less": "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
			"deletes else": "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-ten\n-two\n",
		} {
			p, err := b.plan("apply_patch", args{"patch": patch})
			if err != nil || p.Detail.Summary != "patch f" || len(p.Writes) != 1 {
				b.Errorf("%s: %+v %v", name, p.Detail, err)
			}
			if name == "fits" {
				continue
			}
			if len(p.Detail.Notes) == 0 || !strings.HasPrefix(p.Detail.Notes[0], "it would fail: ") {
				b.Errorf("%s: %q", name, p.Detail.Notes)
			}
			if _, err := b.runPlan(b.Context(), p); err == nil || b.get("f") != "one\ntwo\n" {
				b.Errorf("%s: %v %q", name, err, b.get("f"))
			}
		}
		b.must("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"})
		if b.get("f") != "1\ntwo\n" {
			b.Errorf("%q", b.get("f"))
		}
	})
}
