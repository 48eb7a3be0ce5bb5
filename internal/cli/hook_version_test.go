//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/exetest"
)

func TestClaudeVersions(t *testing.T) {
	for text, want := range map[string]version{
		"2.1.300 (Claude Code)\n": {2, 1, 300}, "2.0.9": {2, 0, 9}, "": {}, "claude 2.1.300": {}, "2.1": {}, "9999999.1.1": {}, "0.0.0": {},
	} {
		if got := readVersion([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, c := range []struct {
		v, w version
		want bool
	}{{version{2, 1, 294}, blocksSince, true}, {version{2, 1, 295}, blocksSince, false}, {version{3, 0, 0}, blocksSince, false}, {version{1, 9, 999}, blocksSince, true}, {version{}, blocksSince, false}} {
		if got := c.v.before(c.w); got != c.want {
			t.Errorf("%v before %v: %v", c.v, c.w, got)
		}
	}
}

// The entry depends on the Claude Code that is here: one that would run the original
// of a rewritten command gets no hook that rewrites, and only one that knows the
// word is told to block when the hook fails.
func TestHookInstallByVersion(t *testing.T) {
	for _, c := range []struct{ name, says, mode, want, wantErr string }{
		{"current", "echo '2.1.300 (Claude Code)'", "rewrite", `"onFailure": "block"`, ""},
		{"older", "echo '2.1.294 (Claude Code)'", "rewrite", "", "2.1.295"},
		{"cannot rewrite", "echo 2.0.9", "rewrite", "", "--mode check"},
		{"checks", "echo 2.0.9", "check", "", "2.1.295"},
		{"fails", "exit 3", "rewrite", "", "none here"},
		{"floods", "head -c 1000000 /dev/zero", "rewrite", "", "none here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStage(t, nil)
			bin := filepath.Join(s.home, "bin")
			fatal(t, os.Mkdir(bin, 0o700))
			fatal(t, exetest.Write(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"+c.says+"\n")))
			s.env = append(s.env, "PATH="+bin+":/usr/bin:/bin")
			code, _, errs := s.main(nil, "hook", "install", "claude-code", "--workspace", s.work, "--mode", c.mode)
			doc, err := os.ReadFile(filepath.Join(s.work, ".claude", "settings.json"))
			if refused := c.name == "cannot rewrite"; (code != 0) != refused || (err != nil) != refused {
				t.Fatalf("%d %q %v", code, errs, err)
			}
			if !strings.Contains(errs, c.wantErr) || !strings.Contains(string(doc), c.want) || c.want == "" && strings.Contains(string(doc), "onFailure") {
				t.Errorf("%q\n%s", errs, doc)
			}
		})
	}
}
