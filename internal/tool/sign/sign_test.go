package sign

import (
	"testing"

	"palyra/internal/gitobject"
)

// What a commit changes is counted as people count.
func TestChangedCounts(t *testing.T) {
	one := gitobject.Diffstat{Added: 1, Files: []gitobject.FileChange{{How: "added", Path: "a", Added: 1}}}
	two := gitobject.Diffstat{Removed: 1, More: 1, Files: one.Files}
	for want, d := range map[string]gitobject.Diffstat{
		"1 file, 1 line added, 0 removed": one, "2 files, 0 lines added, 1 removed": two,
	} {
		if got := changed(d)[0]; got != want {
			t.Errorf("%q, and not %q", got, want)
		}
	}
}
