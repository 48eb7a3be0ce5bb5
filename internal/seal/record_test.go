package seal

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/quarantine"
)

func TestBadRecords(t *testing.T) {
	const good = `{"version":2,"workspace":"L3dz","dev":1,"ino":2,"max_entries":5,"max_sealed":5,"names":[".envrc"],"paths":[{"path":"LmVudnJj","kind":1,"dev":1,"ino":3,"mode":1,"links":1,"size":1,"mtime":1,"mtime_ns":1,"ctime":1,"ctime_ns":1}]}`
	s, err := Load([]byte(good))
	must(t, err)
	if again, err := s.Record(); err != nil || string(again) != good {
		t.Errorf("%v\n%s\n%s", err, again, good)
	}
	for _, swap := range [][2]string{
		{`"version":2`, `"version":3`},
		{`"version":2`, `"version":0`},
		{`"L3dz"`, `"d3M="`},
		{`"L3dz"`, `"L3dzLy4u"`},
		{`"LmVudnJj"`, `"Li4vYQ=="`},
		{`"LmVudnJj"`, `"L2E="`},
		{`"LmVudnJj"`, `""`},
		{`"LmVudnJj"`, `"Lg=="`},
		{`"kind":1`, `"kind":0`},
		{`"kind":1`, `"kind":6`},
		{`".envrc"`, `"**"`},
		{`"dev":1`, `"dev":-1`},
		{`"dev":1`, `"more":1`},
		{"}]}", "}]}{}"},
		{`"LmVudnJj"`, `"YQBi"`},
	} {
		bad := bytes.Replace([]byte(good), []byte(swap[0]), []byte(swap[1]), 1)
		if _, err := Load(bad); err == nil {
			t.Errorf("taken with %s", swap[1])
		}
	}
	if _, err := Load(make([]byte, maxRecord+1)); err == nil {
		t.Error("a record that is too long was taken")
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"workspace":"L3dz","names":[".git/"],"paths":[{"path":"LmVudnJj","kind":1}]}`))
	f.Add([]byte(`{"version":2,"workspace":"L3dz","names":[".git/"],"paths":[{"path":"YQ==","kind":7,"text":"Yg=="}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Load(b)
		if err != nil {
			return
		}
		for _, e := range s.entries {
			if e.path != "." && !quarantine.Clean(e.path) {
				t.Errorf("path %q was taken", e.path)
			}
		}
		again, err := s.Record()
		must(t, err)
		back, err := Load(again)
		must(t, err)
		if d := cmp.Diff(s.entries, back.entries, cmp.AllowUnexported(watchedPath{}, ident{}, stamp{})); d != "" {
			t.Error(d)
		}
	})
}
