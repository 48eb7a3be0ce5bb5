package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const output = `goos: linux
BenchmarkPeers-2   	       3	         0.60 palyra/bwrap	         2.50 exec/bwrap	         3.900 version/plain	         0 ns/op
BenchmarkPeers-2   	       3	         0.80 palyra/bwrap	         2.60 exec/bwrap	         3.00 version/plain	         0 ns/op
BenchmarkPeers-2   	       3	         0.65 palyra/bwrap	         2.70 exec/bwrap	         2.90 version/plain	         0 ns/op
BenchmarkGate/callers=64 	  100	     9000 calls/s
--- BENCH: BenchmarkPeers-2
BenchmarkNotes something that somebody logged
PASS
`

func TestTable(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "bench.json")
	var out strings.Builder
	if err := run([]string{"table", copied}, strings.NewReader(output), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`gated call in tier C / bare bubblewrap +0.65 +0.6 +0.8 +≤ 0.7 × +≤ 0.45 × +held\n`,
		`palyra exec -- true, the process / bare bubblewrap +2.6 +2.5 +2.7 +≤ 2 × +≤ 1.2 × +MISSED\n`,
		`palyra version / plain +3 +2.9 +3.9 +≤ 4 × +≤ 3 × +MOONSHOT\n`,
		`the gate, 64 callers +9000 +9000 +9000 +≥ 8000 /s +≥ 20000 /s +held\n`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	b, err := load(copied)
	if err != nil || len(b.Figures) != 4 || b.Figures[0].Median != 0.65 || len(b.All["Peers palyra/bwrap"]) != 3 || b.Load == "" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := run([]string{"table", path}, strings.NewReader(text), new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := write("before", output)
	for name, c := range map[string]struct {
		text, want string
	}{
		"the same":       {output, ""},
		"within noise":   {strings.ReplaceAll(output, "2.50 exec/bwrap", "2.90 exec/bwrap"), ""},
		"rounds overlap": {strings.NewReplacer("0.60 palyra", "1.60 palyra", "0.80 palyra", "1.80 palyra").Replace(output), ""},
		"slower": {
			strings.NewReplacer("2.50 exec", "4.5 exec", "2.60 exec", "4.6 exec", "2.70 exec", "4.7 exec").Replace(output),
			"palyra exec",
		},
		"fewer": {strings.ReplaceAll(output, "9000 calls/s", "5000 calls/s"), "the gate, 64 callers"},
		"more":  {strings.ReplaceAll(output, "9000 calls/s", "19000 calls/s"), ""},
		"faster is no fault": {
			strings.NewReplacer("2.50 exec", "0.5 exec", "2.60 exec", "0.6 exec", "2.70 exec", "0.7 exec").Replace(output),
			"",
		},
	} {
		var out strings.Builder
		err := run([]string{"check", before, write("after", c.text)}, nil, &out)
		if (err != nil) != (c.want != "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{},
		{"table"},
		{"check", bad},
		{"check", bad, bad},
		{"check", empty, empty},
		{"check", "/nowhere", bad},
		{"table", filepath.Join(dir, "x")},
	} {
		if err := run(args, strings.NewReader("PASS\n"), new(strings.Builder)); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	words := strings.NewReader("BenchmarkPeers 1 x palyra/bwrap\n")
	if err := run([]string{"table", filepath.Join(dir, "x")}, words, new(strings.Builder)); err == nil {
		t.Error("a metric that is no number was taken")
	}
}

// Every hold is of a benchmark that exists: one that is renamed would vanish from the table.
func TestHoldsAreMeasured(t *testing.T) {
	var all strings.Builder
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			raw, err := os.ReadFile(path)
			all.Write(raw)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range holds {
		name, _, _ := strings.Cut(h.benchmark, "/")
		unit := h.unit
		if h.benchmark == "Peers" || strings.HasSuffix(unit, "-MiB") { // which are put together from names
			unit = ""
		}
		if text := all.String(); !strings.Contains(text, "func Benchmark"+name+"(") || unit != "ns/op" && !strings.Contains(text, unit) {
			t.Errorf("nothing measures %s %s", h.benchmark, h.unit)
		}
	}
}
