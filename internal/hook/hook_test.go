//go:build unix

package hook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestTables: what only talks, what runs a command, and that nothing else is known.
func TestTables(t *testing.T) {
	a, ok := Find("claude-code")
	if !ok {
		t.Fatal("no Claude Code")
	}
	for _, name := range []string{
		"ToolSearch", "TaskCreate", "TaskOutput", "Agent", "ListAgents", "ReportFindings", "ScheduleWakeup",
		"BashOutput", "TodoWrite",
	} {
		if !a.Talks(name, nil) || a.Shell(name) {
			t.Errorf("%s is asked about", name)
		}
	}
	for _, name := range []string{
		"", "Skill", "Workflow", "EnterWorktree", "CronCreate", "SendMessage", "WebSearch", "Read", "Write",
		"Bash", "Monitor", "toolsearch", "mcp__x__ToolSearch",
	} {
		if a.Talks(name, nil) {
			t.Errorf("%s is not asked about", name)
		}
	}
	if a.Talks("Agent", map[string]json.RawMessage{"isolation": json.RawMessage(`"worktree"`)}) ||
		!a.Talks("Agent", map[string]json.RawMessage{"isolation": json.RawMessage(`null`)}) {
		t.Error("an agent with a worktree of its own does more than talk")
	}
	if !a.Shell("Bash") || !a.Shell("Monitor") || a.Shell("Read") {
		t.Error("what runs commands")
	}
	if c, ok := Find("codex"); !ok || !c.Shell("Bash") || c.Talks("ToolSearch", nil) {
		t.Error("Codex")
	}
	if _, ok := Find("x"); ok {
		t.Error("an agent that is not known")
	}
}

func put(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeeps: the files that the agent keeps for this session are its own, and no path
// that a model can write leads from there to anything else.
func TestKeeps(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const id = "0947c0b4-81d9-4f9e-93c3-3781eb2acc03"
	project := filepath.Join(dir, "home", ".claude", "projects", "-w")
	temp := filepath.Join(dir, "tmp")
	tasks := filepath.Join(temp, "claude-"+strconv.Itoa(os.Geteuid()), "-w", id, "tasks")
	results := filepath.Join(project, id, "tool-results")
	s := AgentSession{Transcript: put(t, filepath.Join(project, id+".jsonl")), ID: id, Temp: temp}
	saved, output := put(t, filepath.Join(results, "b1.txt")), put(t, filepath.Join(tasks, "b2.output"))
	secret := put(t, filepath.Join(dir, "home", ".ssh", "id_ed25519"))
	other := put(t, filepath.Join(project, "11111111-81d9-4f9e-93c3-3781eb2acc03", "tool-results", "b.txt"))
	sub := put(t, filepath.Join(project, id, "subagents", "agent-a1.jsonl"))
	link := func(name, to string) string {
		path := filepath.Join(tasks, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, path := range []string{saved, output, link("a1.output", sub)} {
		if !s.Keeps(path) {
			t.Errorf("%s is not the agent's own", path)
		}
	}
	hard := filepath.Join(results, "hard.txt")
	if err := os.Link(secret, hard); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		secret, other, s.Transcript, results, hard, link("out.output", secret), link("dir", filepath.Dir(secret)),
		filepath.Join(tasks, "dir", "id_ed25519"),
		results + "/../../../../.ssh/id_ed25519", results + "/./b1.txt", "b1.txt", filepath.Join(results, "none.txt"), "",
	} {
		if s.Keeps(path) {
			t.Errorf("%s is taken for the agent's own", path)
		}
	}
	for name, bad := range map[string]AgentSession{
		"another session":       {Transcript: s.Transcript, ID: "11111111-81d9-4f9e-93c3-3781eb2acc03", Temp: temp},
		"a name that leads out": {Transcript: filepath.Join(project, "...jsonl"), ID: "..", Temp: temp},
		"not among projects":    {Transcript: put(t, filepath.Join(dir, "x", "y", id+".jsonl")), ID: id, Temp: temp},
		"no transcript":         {Transcript: filepath.Join(project, "22222222.jsonl"), ID: "22222222", Temp: temp},
		"nothing":               {},
	} {
		if bad.Keeps(saved) || bad.Keeps(output) {
			t.Error(name)
		}
	}
	if err := os.Chmod(filepath.Dir(tasks), 0o777); err != nil {
		t.Fatal(err)
	}
	if s.Keeps(output) {
		t.Error("a directory that others can write to")
	}
}
