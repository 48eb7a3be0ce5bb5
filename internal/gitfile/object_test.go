package gitfile

import "testing"

func TestObject(t *testing.T) {
	for p, want := range map[string]string{
		".git/objects/ab/cdef": ".git/objects", "a/b/.git/objects/pack/p.pack": "a/b/.git/objects", ".git/objects/ab": ".git/objects",
		".git/modules/objects/x/objects/0f/1": ".git/modules/objects/x/objects", ".git/modules/s/objects/pack": ".git/modules/s/objects",
		".git/objects": "", ".git/objects/info/alternates": "", ".git/objects/info/packs": "", ".git/objects/zz/x": "",
		".git/hooks/objects/ab": "",
		"objects/ab/cdef":       "", ".git": "", "": "", ".git/refs/objects/ab/c": "", ".git/worktrees/x/objects/ab": "",
	} {
		if got, is := Object(p); got != want || is != (want != "") {
			t.Errorf("%q: %q %v, want %q", p, got, is, want)
		}
	}
}
