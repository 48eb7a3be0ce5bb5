//go:build linux

package cli

import (
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

// What a call changed is shown with what tools run first, names of bytes quoted, and how many there are besides.
func TestChangesCommand(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	for args, want := range map[string][]string{
		"changes C1": {
			"Builds and tests will run\n  Makefile\n4 paths: 1 created, 3 link; 0 bytes before, 9 bytes after\n",
			`  link     "a\xff"  → "to\n"`, "  created  b  dir\n", "  … 3 more: --cursor 1\n", "palyra undo C1",
		},
		"changes C1 --diff":          {"-a\n+b\n"},
		"changes C1 --diff=x --json": {`"diff":"-a\n+b\n"`, `"notes":[]`},
		"changes C1 --json":          {`"run_by_tools":["Makefile"]`, `"path":"\"a\\xff\""`, `"undo":"kept"`},
		"undo --list":                {"C1", "kept", "/w", "write a"},
		"undo C1":                    {"C1: undone in /w\n1 path: 1 removed;"},
		"undo --session S1 --json":   {`"call_id":"C1"`, `"dry_run":false`},
		"redo C1":                    {"C1: redone in /w\n"},
		"undo C1 --forget":           {"C1: what it replaced is not kept any longer\n"},
		"undo --since 2020-01-01":    {"C1: undone in /w\n"},
		"undo --since 2020-01-01 --forget --session '": nil,
	} {
		code, out, errs := s.Main(nil, strings.Fields(args)...)
		if want == nil {
			if code != exit.Usage {
				t.Errorf("%s: %d %s", args, code, errs)
			}
			continue
		}
		for _, w := range want {
			if code != exit.OK || !strings.Contains(out, w) {
				t.Errorf("%s: %d, no %q in\n%s%s", args, code, w, out, errs)
			}
		}
	}
	code, out, _ := s.Main(nil, "undo", "C1", "--dry-run")
	if code == exit.OK || !strings.Contains(out, "C1: it differs\n  differs  a\n") {
		t.Errorf("%d %s", code, out)
	}
	for _, args := range []string{
		"redo", "redo C1 --last", "redo --last", // nothing was undone where it stands
		"undo", "undo C1 --last", "undo --list --last", "undo C1 --list", "undo --last --since 1h",
		"undo --session nobody's", "undo --since never",
	} {
		if code, out, _ := s.Main(nil, strings.Fields(args)...); code == exit.OK || out != "" {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
}
