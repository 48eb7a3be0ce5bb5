//go:build unix

package files

import (
	"os"
	"strings"
	"testing"

	"palyra"
)

func TestEdit(t *testing.T) {
	each(t, func(b *box) {
		b.put("f.go", "a := 1\nb := 1\n", 0o750)
		got := b.must("edit", args{"path": "f.go", "old_string": "b := 1", "new_string": "b := 2"})
		if b.get("f.go") != "a := 1\nb := 2\n" || got["replacements"] != 1.0 ||
			got["previous_sha256"] != string(palyra.SumBytes([]byte("a := 1\nb := 1\n"))) {
			b.Errorf("%q %v", b.get("f.go"), got)
		}
		if fi, st := b.stat("f.go"); fi.Mode() != 0o750 || int(st.Uid) != b.owner {
			b.Errorf("mode %v uid %d", fi.Mode(), st.Uid)
		}
		got = b.must("edit", args{"path": "f.go", "old_string": " := ", "new_string": "=", "replace_all": true})
		if b.get("f.go") != "a=1\nb=2\n" || got["replacements"] != 2.0 {
			b.Errorf("%q %v", b.get("f.go"), got)
		}
		b.must("edit", args{"path": "f.go", "old_string": "a=1\n", "new_string": ""})
		if b.get("f.go") != "b=2\n" {
			b.Errorf("%q", b.get("f.go"))
		}
	})
}

func TestEditRefuses(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "one two one\n", 0o644)
		b.put("bin", "one\x00", 0o644)
		b.ok(os.Symlink("f", b.path("link")))
		for name, c := range map[string]struct {
			args args
			want string
		}{
			"not there":     {args{"path": "f", "old_string": "three", "new_string": "x"}, "does not stand in"},
			"ambiguous":     {args{"path": "f", "old_string": "one", "new_string": "x"}, "twice"},
			"no change":     {args{"path": "f", "old_string": "two", "new_string": "two"}, "the same"},
			"NUL":           {args{"path": "f", "old_string": "two", "new_string": "\x00"}, "NUL"},
			"not text":      {args{"path": "bin", "old_string": "one", "new_string": "x"}, "not text"},
			"no file":       {args{"path": "g", "old_string": "one", "new_string": "x"}, "does not exist"},
			"a link":        {args{"path": "link", "old_string": "two", "new_string": "x"}, "symbolic link"},
			"outside":       {args{"path": "../f", "old_string": "two", "new_string": "x"}, ""},
			"a directory":   {args{"path": ".", "old_string": "two", "new_string": "x"}, ""},
			"grows too big": {args{"path": "f", "old_string": "two", "new_string": strings.Repeat("x", defaultMaxFile)}, "larger than"},
		} {
			_, err := b.call("edit", c.args)
			if e := palyra.AsError(err); err == nil || !strings.Contains(e.Error(), c.want) || e.Reason == "" || b.get("f") != "one two one\n" {
				b.Errorf("%s: %v, %q", name, err, b.get("f"))
			}
		}
	})
}

// What is written is what was planned: a file that changed in between is not edited.
func TestEditOfAChangedFile(t *testing.T) {
	each(t, func(b *box) {
		b.put("f", "one\n", 0o644)
		p, err := b.plan("edit", args{"path": "f", "old_string": "one", "new_string": "two"})
		b.ok(err)
		if !strings.Contains(p.Detail.Diff, "-one") || !strings.Contains(p.Detail.Diff, "+two") || p.Detail.Summary != "edit f (+1 -1 lines)" {
			b.Errorf("%q\n%s", p.Detail.Summary, p.Detail.Diff)
		}
		b.put("f", "one more\n", 0o644)
		if _, err := b.runPlan(b.Context(), p); palyra.AsError(err).Reason != palyra.ReasonPlanChanged || b.get("f") != "one more\n" {
			b.Errorf("%v %q", err, b.get("f"))
		}
	})
}

// Where nobody registered the workspace, reading is asked about. Whoever proposes one
// edit after the other must not find out what a file says: each is planned and looks
// the same, and fails when it was let run.
func TestEditTellsNothingUnasked(t *testing.T) {
	each(t, func(b *box) {
		b.foreign = true
		b.put("f", "my secret, your secret\n", 0o640)
		b.put("bin", "secret\x00", 0o640)
		large := strings.Repeat("x", defaultMaxFile)
		for _, a := range []args{
			{"path": "f", "old_string": "my s", "new_string": "x"},
			{"path": "f", "old_string": "my t", "new_string": "x"},
			{"path": "f", "old_string": "secret", "new_string": "x"},
			{"path": "f", "old_string": "my s", "new_string": large},
			{"path": "bin", "old_string": "secret", "new_string": "x"},
		} {
			p, err := b.plan("edit", a)
			if name := a["path"].(string); err != nil || p.Detail.Summary != "edit "+name || len(p.Writes) != 1 || len(p.Inputs) != 1 ||
				p.Inputs[0].Digest != palyra.SumBytes([]byte(b.get(name))) {
				b.Errorf("%.80v: %+v, %v", a, p, err)
			}
			if a["old_string"] == "my s" && a["new_string"] == "x" {
				continue
			}
			if len(p.Detail.Notes) == 0 || !strings.HasPrefix(p.Detail.Notes[0], "it would fail: ") { // whoever answers is told
				b.Errorf("%.80v: %q", a, p.Detail.Notes)
			}
			if _, err := b.runPlan(b.Context(), p); err == nil || b.get("f") != "my secret, your secret\n" {
				b.Errorf("%.80v: %v, %q", a, err, b.get("f"))
			}
		}
		b.must("edit", args{"path": "f", "old_string": "my s", "new_string": "x"})
		if b.get("f") != "xecret, your secret\n" {
			b.Errorf("%q", b.get("f"))
		}
		if _, err := b.plan("edit", args{"path": "none", "old_string": "a", "new_string": "x"}); palyra.AsError(err).
			Reason != palyra.ReasonFileNotFound {
			b.Errorf("%v", err)
		}
	})
}
