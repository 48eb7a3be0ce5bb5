//go:build unix

package files

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"palyra"
)

// heavyPattern is about the heaviest pattern that is let in.
const heavyPattern = ".{0,1000}.{0,1000}Q"

// Whatever it is given, a tool ends by its time: much more is waited for here, for a busy
// machine, and without a limit they would go on for longer.
func TestHostileInputEndsInTime(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("line.js", strings.Repeat("a", 8<<20), 0o644)
	b.put("lines.js", strings.Repeat(strings.Repeat("b", 60<<10)+"\n", 100), 0o644)
	b.put("empty.txt", strings.Repeat("\n", 8<<20), 0o644)
	b.put("same.txt", strings.Repeat(strings.Repeat("c", 3000)+"x\n", 9000), 0o644)
	var hunks strings.Builder
	hunks.WriteString("--- a/same.txt\n+++ b/same.txt\n")
	for i := range 1000 {
		fmt.Fprintf(&hunks, "@@ -%d,1 +%d,1 @@\n-%sy\n+z\n", i+1, i+1, strings.Repeat("c", 3000))
	}
	for name, call := range map[string]struct {
		tool string
		args args
	}{
		"one line":    {"search", args{"pattern": heavyPattern, "path": "line.js"}},
		"long lines":  {"search", args{"pattern": heavyPattern, "path": "lines.js"}},
		"empty lines": {"search", args{"pattern": heavyPattern, "path": "empty.txt"}},
		"folded":      {"search", args{"pattern": strings.Repeat("[^\\x{100}-\\x{10ffff}]*", 8) + "Q", "ignore_case": true, "path": "line.js"}},
		"many stars":  {"search", args{"pattern": "x", "glob": strings.Repeat("**/*a*a*a*a/", 20) + "b"}},
		"patch":       {"apply_patch", args{"patch": hunks.String()}},
		"edit": {"edit", args{
			"path": "line.js", "old_string": strings.Repeat("a", 100_000) + "b", "new_string": "",
			"replace_all": true,
		}},
		"edit of lines": {"edit", args{"path": "line.js", "old_string": "a", "new_string": "\n", "replace_all": true}},
		"list":          {"list", args{"recursive": true, "limit": 5000}},
		"read":          {"read", args{"path": "line.js", "limit": 1 << 20}},
		"write":         {"write", args{"path": "new", "content": strings.Repeat("a\n", 3<<20)}},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(call.args)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			p := palyra.Plan{
				Tool: palyra.ToolName("palyra.fs." + call.tool), Arguments: raw,
				Workspace: palyra.WorkspaceRef{Path: b.dir, Owner: int64(os.Geteuid()), Known: true},
				Limits:    palyra.Limits{OutputBytes: 1 << 20},
			}
			if err = b.byName[call.tool].Plan(ctx, b.env(), &p); err == nil {
				_, err = b.byName[call.tool].Run(ctx, b.env(), p)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: %v", took, err)
			}
		})
	}
	t.Run("too heavy", func(t *testing.T) {
		b.refused(palyra.ReasonSchemaMismatch, "search", args{"pattern": strings.Repeat(".{0,1000}", 110) + "Q", "path": "line.js"})
	})
}
