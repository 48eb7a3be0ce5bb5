package cell

import (
	"bytes"
	"testing"
)

// What a launcher became cannot be changed any more: a run that needs it otherwise is refused.
func TestGiven(t *testing.T) {
	base := func() Spec {
		return Spec{
			Version: Version, Path: "/bin/true", Argv: []string{"true"}, Cwd: "/", Filter: make([]byte, 16),
			Identity: &Identity{UID: 7, GID: 8}, Rlimits: []Rlimit{{4, 1}, {7, 100}, {10, 5}}, Landlock: Landlock{FS: 4},
		}
	}
	ahead := base()
	ahead.Rlimits = []Rlimit{{4, 1}, {10, 5}}
	for name, change := range map[string]func(*Spec){
		"the filter":            func(s *Spec) { s.Filter = append(s.Filter, 6, 0, 0, 0, 0, 0, 0, 0) },
		"nobody":                func(s *Spec) { s.Identity = nil },
		"another user":          func(s *Spec) { s.Identity.UID = 9 },
		"another group":         func(s *Spec) { s.Identity.GID = 9 },
		"another limit":         func(s *Spec) { s.Rlimits[0].Value = 0 },
		"a limit less":          func(s *Spec) { s.Rlimits = s.Rlimits[:2] },
		"a limit twice":         func(s *Spec) { s.Rlimits = append(s.Rlimits, Rlimit{4, 0}) },
		"content over its path": func(s *Spec) { s.Sealed, s.Cover = true, true },
		"no argv":               func(s *Spec) { s.Argv = nil },
	} {
		s := base()
		change(&s)
		if f, err := Given(&s, &ahead); err == nil {
			t.Errorf("%s was given", name)
			_ = f.Close()
		}
	}
	s := base()
	f, err := Given(&s, &ahead)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b, err := content(f)
	want := Spec{Path: s.Path, Argv: s.Argv, Cwd: s.Cwd, Rlimits: []Rlimit{{7, 100}}, Landlock: s.Landlock}
	if err != nil || !bytes.Equal(b, LauncherImage(&want, false)) {
		t.Errorf("it got %d bytes: %v", len(b), err)
	}
}
