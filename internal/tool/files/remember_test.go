//go:build unix

package files

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/tool"
)

// keptList remembers what is about to be replaced.
type keptList struct {
	all  []Replaced
	plan []string // paths that were planned
	uid  int64
	told []bool
	full error
	why  string // what is said to be lasting
	lose bool   // what was agreed to
}

func (s *keptList) Lasting(all []Replaced) string {
	s.plan = nil
	for _, r := range all {
		s.plan = append(s.plan, r.Path)
	}
	return s.why
}

func (s *keptList) Remember(_ context.Context, _ palyra.CallID, _ string, uid, _ int64, all []Replaced, lose bool) (func(bool), error) {
	if s.lose = lose; s.full != nil {
		return nil, s.full
	}
	s.all, s.uid = all, uid
	return func(changed bool) { s.told = append(s.told, changed) }, nil
}

// What cannot be kept is not replaced, and nothing that was made for it stays.
func TestReplacedIsNotWithoutRoom(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "old\n", 0o640)
	b.shared.cfg.UndoStore = &keptList{full: palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "full")}
	for _, path := range []string{"f", "d/e/n"} {
		_, err := b.call("write", args{"path": path, "content": "new\n", "make_dirs": true})
		if palyra.AsError(err).Reason != palyra.ReasonQuotaExceeded {
			t.Errorf("%s: %v", path, err)
		}
	}
	names, err := os.ReadDir(b.dir)
	text, readErr := os.ReadFile(filepath.Join(b.dir, "f"))
	if err != nil || readErr != nil || len(names) != 1 || string(text) != "old\n" {
		t.Errorf("%v, %q, %v, %v", names, text, err, readErr)
	}
}

// A plan says that its changes cannot be undone, or cost others theirs, and people are told why; they are made at that
// price only where somebody agreed.
func TestLastingIsAgreedTo(t *testing.T) {
	b := newBox(t, os.Geteuid())
	s := &keptList{why: "takes the room of others"}
	b.shared.cfg.UndoStore = s
	b.put("f", "old\n", 0o640)
	for name, c := range map[string]struct {
		a     args
		paths string
	}{
		"write":       {args{"path": "d/e/n", "content": "new\n", "make_dirs": true}, "d d/e d/e/n"},
		"edit":        {args{"path": "f", "old_string": "old", "new_string": "new"}, "f"},
		"apply_patch": {args{"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n"}, "f"},
	} {
		for _, approved := range []bool{false, true} {
			b.put("f", "old\n", 0o640)
			p, err := b.plan(name, c.a)
			b.ok(err)
			slices.Sort(s.plan)
			if !p.Lasting || !slices.Contains(p.Detail.Notes, s.why) || strings.Join(s.plan, " ") != c.paths {
				t.Errorf("%s: %v, %q, %q", name, p.Lasting, p.Detail.Notes, s.plan)
			}
			env := b.env()
			env.Approved = approved
			if _, err := b.byName[name].Run(t.Context(), env, p); err != nil || s.lose != approved {
				t.Errorf("%s, approved %v: %v, %v", name, approved, s.lose, err)
			}
			b.ok(os.RemoveAll(filepath.Join(b.dir, "d")))
		}
	}
	s.why = ""
	if p, err := b.plan("write", args{"path": "f", "content": "x"}); err != nil || p.Lasting {
		t.Errorf("%v, %v", p.Lasting, err)
	}
}

// What a call replaces is handed over before it is replaced, with the directories that it makes; and whether it was.
func TestReplacedIsRemembered(t *testing.T) {
	b := newBox(t, os.Geteuid())
	s := &keptList{}
	b.shared.cfg.UndoStore = s
	b.put("f", "old\n", 0o640)
	b.must("write", args{"path": "f", "content": "new\n"})
	if len(s.all) != 1 || string(s.all[0].Before) != "old\n" || s.all[0].Was.Mode != 0o640 ||
		s.all[0].Was.Digest != palyra.SumBytes([]byte("old\n")) ||
		s.all[0].Now.Digest != palyra.SumBytes([]byte("new\n")) || s.uid != int64(os.Geteuid()) || !slices.Equal(s.told, []bool{true}) {
		t.Errorf("%+v", s)
	}
	b.must("write", args{"path": "d/e/n", "content": "x", "make_dirs": true})
	var paths []string
	for _, r := range s.all {
		paths = append(paths, r.Path)
		if r.Was != nil || r.Now == nil {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(paths, []string{"d", "d/e", "d/e/n"}) || len(s.told) != 2 {
		t.Errorf("%v, %v", paths, s.told)
	}
	b.must("write", args{"path": "f", "content": "new\n"})
	if len(s.told) != 2 {
		t.Errorf("nothing changed, and %+v is remembered", s.all)
	}
	b.shared.at = func(step string) {
		if step == "staged" {
			b.put("f", "somebody else\n", 0o640)
		}
	}
	if _, err := b.call("write", args{"path": "f", "content": "newer\n"}); err == nil || s.told[len(s.told)-1] {
		t.Errorf("%v, and it is remembered: %v", err, s.told)
	}
}

// What somebody else is about to replace is kept as if the tool replaced it, and nothing changes; no more is kept than was judged.
func TestForeseenIsKeptAndNotMade(t *testing.T) {
	for name, a := range map[string]args{
		"write":       {"path": "f", "content": "new\n"},
		"edit":        {"path": "f", "old_string": "old", "new_string": "new"},
		"apply_patch": {"patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n+new\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, os.Geteuid())
			s := &keptList{}
			b.shared.cfg.UndoStore = s
			b.put("f", "old\n", 0o640)
			var told []func(bool)
			env := b.env()
			env.Foreseen = func(f func(bool)) { told = append(told, f) }
			if _, ok := b.byName[name].(tool.Foreseer); !ok {
				t.Fatal("it foresees nothing")
			}
			p, err := b.plan(name, a)
			b.ok(err)
			if _, err := b.byName[name].Run(t.Context(), env, p); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(b.dir, "f"))
			if err != nil || string(text) != "old\n" || len(s.all) != 1 || string(s.all[0].Before) != "old\n" || len(told) != 1 || len(s.told) != 0 {
				t.Errorf("%q, %v, %+v, told %d", text, err, s, len(told))
			}

			b.put("f", "old\nand more\n", 0o640)
			if _, err := b.byName[name].Run(t.Context(), env, p); err == nil || len(told) != 1 {
				t.Errorf("another file is there than was judged: %v, told %d", err, len(told))
			}
			b.put("f", "old\n", 0o640)
			s.full = palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "full")
			if _, err := b.byName[name].Run(t.Context(), env, p); palyra.AsError(err).Reason != palyra.ReasonQuotaExceeded || len(told) != 1 {
				t.Errorf("without room: %v, told %d", err, len(told))
			}
		})
	}
}

// What a check is about may be written in place: where the file has other names, that is not taken back.
func TestOtherNamesAreLastingForAnAgentsOwnTools(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.shared.cfg.UndoStore = &keptList{}
	b.put("f", "old\n", 0o640)
	b.ok(os.Link(filepath.Join(b.dir, "f"), filepath.Join(t.TempDir(), "g")))
	for _, check := range []bool{false, true} {
		p, err := b.plan("write", args{"path": "f", "content": "new\n"})
		b.ok(err)
		env := b.env()
		env.Check = check
		b.ok(b.byName["write"].Plan(t.Context(), env, &p))
		if p.Lasting != check {
			t.Errorf("check %t: lasting %t, %q", check, p.Lasting, p.Detail.Notes)
		}
	}
}

// Permissions and directories of what is new are whatever the other program makes of them.
func TestForeseenKnowsNoPermissions(t *testing.T) {
	b := newBox(t, os.Geteuid())
	s := &keptList{}
	b.shared.cfg.UndoStore = s
	env := b.env()
	env.Foreseen = func(func(bool)) {}
	p, err := b.plan("write", args{"path": "d/e/n", "content": "new\n", "make_dirs": true})
	b.ok(err)
	if _, err := b.byName["write"].Run(t.Context(), env, p); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{"d/e", "d", "d/e/n"} {
		if r := s.all[i]; r.Path != path || !r.AnyMode || r.Was != nil {
			t.Errorf("%+v, want %s", r, path)
		}
	}
	if names, err := os.ReadDir(b.dir); err != nil || len(names) != 0 || len(s.all) != 3 {
		t.Errorf("%v, %v, %+v", names, err, s.all)
	}
}
