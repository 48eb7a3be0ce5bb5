package unified

import (
	"testing"

	"palyra"
)

func TestHunkCounts(t *testing.T) {
	for line, want := range map[string][2]int{
		"@@ -1,3 +1,4 @@\n": {3, 4}, "@@ -1 +1 @@\n": {1, 1}, "@@ -0,0 +1,2 @@ func main() {\n": {0, 2}, "@@ -5,2 +5 @@\n": {2, 1},
	} {
		if old, add, ok := hunkCounts(line); !ok || old != want[0] || add != want[1] {
			t.Errorf("%q: %d %d %v", line, old, add, ok)
		}
	}
	for _, line := range []string{
		"@@ -1 @@\n", "@@ -1,x +1 @@\n", "@@ -1,-2 +1 @@\n", "@@ 1 1 @@\n", "@@\n", "@@ -1 +1\n", "@@ +1 -1 @@\n",
		"@@ -1,99999999999999999999 +1 @@\n",
	} {
		if old, add, ok := hunkCounts(line); ok {
			t.Errorf("%q: %d %d", line, old, add)
		}
	}
}

func TestHeaderNames(t *testing.T) {
	for _, c := range []struct{ old, new, wantOld, wantNew string }{
		{"a/f\n", "b/f\n", "f", "f"},
		{"f\n", "f\n", "f", "f"},
		{"a/f\t2024-01-01\n", "b/f\t2024-01-01\n", "f", "f"},
		{"/dev/null\n", "b/f\n", "/dev/null", "f"},
		{"a/f\n", "/dev/null\n", "f", "/dev/null"},
		{"a/f\n", "a/f\n", "a/f", "a/f"},
		{"a/x y\n", "b/x y\n", "x y", "x y"},
		{"\"a/\\tq\"\n", "\"b/\\tq\"\n", "\tq", "\tq"},
		{"./f\n", "./f\n", "f", "f"},
		{"a/b/f\r\n", "b/b/f\r\n", "b/f", "b/f"},
	} {
		s := section{old: headerName(c.old), new: headerName(c.new)}
		if old, now := s.plainNames(); old != c.wantOld || now != c.wantNew {
			t.Errorf("%q %q: %q %q", c.old, c.new, old, now)
		}
	}
}

func TestParsePatchNames(t *testing.T) {
	for text, want := range map[string]File{
		"diff --git a/x b/x\nold mode 100644\nnew mode 100755\n":                          {Old: "x", New: "x", Action: "modify"},
		"diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n":          {Old: "x", Action: "delete"},
		"diff --git a/x b/x\nnew file mode 100755\n":                                      {New: "x", Action: "create"},
		"diff --git a/d/x b/e/y\nsimilarity index 100%\nrename from d/x\nrename to e/y\n": {Old: "d/x", New: "e/y", Action: "rename"},
		"diff -u a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n":                        {Old: "x", New: "x", Action: "modify"},
		"Index: x\n=====\n--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n":                            {Old: "x", New: "x", Action: "modify"},
	} {
		got, err := Parse(text)
		if err != nil || len(got) != 1 || got[0].Old != want.Old || got[0].New != want.New || got[0].Action != want.Action {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// What an error says about a patch helps to mend it: it names the line.
func TestPatchErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n": "the patch cannot be applied: line 6 does not belong to the hunk before it, " +
			"whose header counts fewer lines",
		"--- a/f\n+++ b/f\n@@ -1,9 +1 @@\n-a\n+b\n": "the patch cannot be applied: the hunk at line 3 counts more lines than follow",
		"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n*b\n": "the patch cannot be applied: line 5 is neither context, removed nor added; the " +
			"hunk at line 3 counts more lines than follow",
		"x\n@@ -1 +1 @@\n-a\n+b\n":                  "the patch cannot be applied: line 2 is a hunk without a file",
		"--- a/f\n+++ b/f\n@@ what @@\n":            "the patch cannot be applied: line 3 is not a hunk header",
		"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n a\n b\n": "the patch cannot be applied: the hunk at line 3 has other line counts than its header says",
	} {
		_, err := Parse(text)
		if e := palyra.AsError(err); err == nil || e.Text != want || e.Remedy == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
