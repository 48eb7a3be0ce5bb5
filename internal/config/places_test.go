package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlaces(t *testing.T) {
	base := t.TempDir()
	c := Config{Paths: Paths{State: "/srv/me/state.db"}}
	for name, got := range map[string][2]string{
		"a user's":      {c.cells(false, base, "ID"), "/srv/me/cells"},
		"root's":        {c.cells(true, base, "ID"), filepath.Join(base, "palyra-cells-ID")},
		"without /var":  {c.cells(true, filepath.Join(base, "none"), "ID"), filepath.Join(os.TempDir(), "palyra-cells-ID")},
		"as configured": {Config{Process: Process{Dir: "/srv/runs"}}.cells(true, base, "ID"), "/srv/runs"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %s, want %s", name, got[0], got[1])
		}
	}
	if p := placesBelow("/a/cells"); p != (Places{"/a/cells", "/a/cells-caches", "/a/cells-posture", "/a/cells-stages", "/a/cells-undo"}) {
		t.Errorf("%+v", p)
	}
	if p := c.Places("ID"); p != placesBelow(p.Cells) || p.Cells == "" {
		t.Errorf("%+v", p)
	}
}
