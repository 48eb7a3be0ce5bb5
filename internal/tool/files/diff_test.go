//go:build unix

package files

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/tool/files/unified"
)

// Property: what the approver is shown is what will happen. The diff of a plan,
// applied to the files as they are, gives the files as they shall be.
func TestShownDiffIsTheChange(t *testing.T) {
	line := rapid.SampledFrom([]string{
		"a\n", "b\n", "c\n", "\n", " \n", "+x\n", "-x\n", "--- a/f\n", "+++ b/f\n", "@@ -1 +1 @@\n",
		"\\ No newline\n", "é\r\n",
	})
	text := rapid.Custom(func(t *rapid.T) []byte {
		s := strings.Join(rapid.SliceOfN(line, 0, 40).Draw(t, "lines"), "")
		if rapid.Bool().Draw(t, "cut") {
			s = strings.TrimSuffix(s, "\n")
		}
		return []byte(s)
	})
	rapid.Check(t, func(t *rapid.T) {
		c := change{path: "d/f", after: text.Draw(t, "after"), mode: 0o644}
		if rapid.Bool().Draw(t, "exists") {
			c.before = state{exists: true, content: text.Draw(t, "before"), mode: 0o644}
		}
		if c.before.exists && rapid.Bool().Draw(t, "remove") {
			c.remove, c.action, c.after = true, "delete", nil
		}
		s := show([]change{c})
		if c.unchanged() {
			if s.diff.Len() != 0 || s.added+s.removed != 0 {
				t.Fatalf("a change that is none is shown as %q", s.diff.String())
			}
			return
		}
		if bytes.Equal(c.before.content, c.after) {
			return // an empty file made or removed: the header is all there is
		}
		diffs, err := unified.Parse(s.diff.String())
		if err != nil || len(diffs) != 1 {
			t.Fatalf("%q: %v", s.diff.String(), err)
		}
		if made, gone := diffs[0].Old == "", diffs[0].New == ""; made == c.before.exists || gone != c.remove {
			t.Fatalf("%q says made %v, gone %v", s.diff.String(), made, gone)
		}
		got, _, err := unified.Apply("d/f", c.before.content, diffs[0].Hunks, compares())
		if err != nil || !bytes.Equal(got, c.after) {
			t.Fatalf("shown %q; it gives %q, %v, not %q", s.diff.String(), got, err, c.after)
		}
	})
}

func TestShownCounts(t *testing.T) {
	s := show([]change{
		{path: "a", before: state{exists: true, content: []byte("1\n2\n3\n"), mode: 0o644}, after: []byte("1\nx\ny\n3\n"), mode: 0o644},
		{path: "b", after: []byte("new\n"), mode: 0o644},
	})
	if s.added != 3 || s.removed != 1 {
		t.Errorf("+%d -%d: %s", s.added, s.removed, s.diff.String())
	}
	var p palyra.Plan
	s.detail(&p, "patch 2 files")
	if p.Detail.Summary != "patch 2 files (+3 -1 lines)" || p.Detail.Diff != s.diff.String() {
		t.Errorf("%+v", p.Detail)
	}
}

// However much a call changes, the diff stays within bounds, and each file that
// is not shown is named.
func TestShownDiffIsBounded(t *testing.T) {
	content := []byte(strings.Repeat("some line of text\n", 30_000)) // about half a MiB
	var changes []change
	for _, name := range strings.Split("abcdefghijklmnop", "") {
		changes = append(changes, change{path: name, after: content, mode: 0o644})
	}
	s := show(changes)
	if s.diff.Len() > maxDiffAll+maxDiffFile {
		t.Errorf("%d bytes", s.diff.Len())
	}
	hidden := strings.Count(s.diff.String(), "(NOT SHOWN here")
	if hidden == 0 || hidden == len(changes) || strings.Count(strings.Join(s.notes, "\n"), "is not shown") != hidden {
		t.Errorf("%d of %d hidden, notes %d", hidden, len(changes), strings.Count(strings.Join(s.notes, "\n"), "is not shown"))
	}
}

func TestRemarks(t *testing.T) {
	old := state{exists: true, content: []byte("x"), digest: palyra.SumBytes([]byte("x")), mode: 0o4755, links: 3}
	for _, c := range []struct {
		change change
		want   []string
	}{
		{
			change{path: "f", action: "create", mode: 0o644, before: state{missing: "d"}},
			[]string{"creates f with mode 0644", "makes the directory d"},
		},
		{change{path: "f", action: "delete", remove: true, before: old}, []string{"deletes f (1 bytes)", "3 names"}},
		{change{path: "f", action: "overwrite", mode: 0o755, before: old}, []string{
			"overwrites f (1 bytes, sha256:", "from 4755 to 0755",
			"3 names",
		}},
		{change{path: "f\n", action: "modify", mode: 0o4755, before: state{exists: true, mode: 0o4755, links: 1}}, nil},
	} {
		got := c.change.remarks()
		if len(got) != len(c.want) {
			t.Errorf("%v: %q", c.change.action, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%q, want %q", got[i], c.want[i])
			}
		}
	}
}

// Of two plans only the bound fields differ when what is bound differs; detail
// is for people.
func TestDetailIsNotBound(t *testing.T) {
	b := newBox(t, os.Geteuid())
	p, err := b.plan("write", args{"path": "f", "content": "x"})
	b.ok(err)
	one, err := p.Digest()
	b.ok(err)
	p.Detail = palyra.Detail{}
	if two, err := p.Digest(); err != nil || one != two {
		t.Error("the digest depends on the detail")
	}
}
