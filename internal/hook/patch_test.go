package hook

import (
	"strings"
	"testing"
)

// TestPatched: a patch of one file is the file that it makes; all others are not shown
// as something that they may not be.
func TestPatched(t *testing.T) {
	read := func(path string) (string, bool) { return "one\ntwo\nthree\ntwo\n", path == "a.txt" }
	patch := func(lines ...string) string {
		return strings.Join(append(append([]string{"*** Begin Patch"}, lines...), "*** End Patch\n"), "\n")
	}
	for in, want := range map[string]string{
		patch("*** Add File: n.txt", "+x", "+", "+y"):                                        "n.txt:x\n\ny\n",
		patch("*** Update File: a.txt", "@@", " one", "-two", "+2", " three"):                "a.txt:one\n2\nthree\ntwo\n",
		patch("*** Update File: a.txt", "@@", "-one", "+1", "@@", " three", "-two", "+two!"): "a.txt:1\ntwo\nthree\ntwo!\n",
		patch("*** Update File: a.txt", "@@", "-two", "+2"):                                  "", // twice there
		patch("*** Update File: a.txt", "@@ func x", "-one", "+1"):                           "", // Codex looks for the place
		patch("*** Update File: a.txt", "@@", "-none", "+1"):                                 "",
		patch("*** Update File: a.txt", "@@", "-ne", "+1"):                                   "",
		patch("*** Update File: b.txt", "@@", "-one", "+1"):                                  "",
		patch("*** Update File: a.txt", "*** Move to: c.txt", "@@", "-one", "+1"):            "",
		patch("*** Update File: a.txt", "@@", "-one", "+1", "*** Delete File: b.txt"):        "",
		patch("*** Add File: n.txt", "+x", "*** Add File: m.txt", "+y"):                      "",
		patch("*** Delete File: a.txt", "x"):                                                 "",
		"*** Begin Patch\n*** Add File: n.txt\n+x":                                           "",
		"": "",
	} {
		path, content, ok := Patched(in, read)
		got := ""
		if ok {
			got = path + ":" + content
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzPatched: no patch breaks it, and what it returns is bounded.
func FuzzPatched(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: a\n@@\n one\n-two\n+2\n*** End Patch", "one\ntwo\n")
	f.Fuzz(func(t *testing.T, patch, file string) {
		if _, content, ok := Patched(patch, func(string) (string, bool) { return file, true }); ok && len(content) > maxPatched {
			t.Fatal(len(content))
		}
	})
}
