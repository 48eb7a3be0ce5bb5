//go:build unix

package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParks: only a call that stands alone in its message, in a session that was last spoken to by a program, is one
// whose run parks: Claude Code goes on as if there were no hook with any other. The lines are what 2.1.325 wrote.
func TestParks(t *testing.T) {
	const by = `"entrypoint":"sdk-cli","version":"2.1.325"}`
	const prompt = `{"type":"user","message":{"role":"user","content":"go"},"promptSource":"sdk","turnOrigin":"sdk",` + by
	const typed = `{"type":"user","message":{"role":"user","content":"go"},"promptSource":"typed","entrypoint":"cli","version":"2.1.325"}`
	const use = `{"isSidechain":false,"message":{"content":[{"id":"toolu_00","input":{},"name":"Write","type":"tool_use"}],` +
		`"id":"msg_1","role":"assistant"},"type":"assistant",` + by
	const next = `{"message":{"content":[{"id":"toolu_01","name":"Write","type":"tool_use"}],"id":"msg_1"},"type":"assistant",` + by
	const both = `{"message":{"content":[{"id":"toolu_00","type":"tool_use"},{"id":"toolu_01","type":"tool_use"}],"id":"msg_2"},` +
		`"type":"assistant",` + by
	for name, c := range map[string]struct {
		lines []string
		want  bool
	}{
		"alone":                      {[]string{prompt, use}, true},
		"a newer version":            {[]string{prompt, strings.Replace(use, "2.1.325", "2.2.0", 1)}, true},
		"an older version":           {[]string{prompt, strings.Replace(use, "2.1.325", "2.1.324", 1)}, false},
		"no version":                 {[]string{prompt, strings.Replace(use, "2.1.325", "", 1)}, false},
		"two in one message":         {[]string{prompt, both}, false},
		"two lines of one message":   {[]string{prompt, use, next}, false},
		"typed in a window":          {[]string{prompt, typed, use}, false},
		"nobody is known to ask":     {[]string{use}, false},
		"a window's own line":        {[]string{prompt, strings.Replace(use, "sdk-cli", "cli", 1)}, false},
		"the call is not there":      {[]string{prompt, next}, false},
		"nothing":                    {nil, false},
		"what is no line of its own": {[]string{prompt, "x" + use}, false},
	} {
		if got := parks(strings.NewReader(strings.Join(c.lines, "\n")+"\n"), "toolu_00"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	const id = "0947c0b4-81d9-4f9e-93c3-3781eb2acc03"
	file := put(t, filepath.Join(t.TempDir(), "projects", "-w", id+".jsonl"))
	if err := os.WriteFile(file, []byte(prompt+"\n"+use+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !(AgentSession{Transcript: file, ID: id}).Parks("toolu_00") { // the program has made no directory of the session yet
		t.Error("a session of this user's")
	}
	if (AgentSession{}).Parks("toolu_00") {
		t.Error("a session that is not known")
	}
}
