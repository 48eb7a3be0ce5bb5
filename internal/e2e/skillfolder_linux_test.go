package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// skillFolder writes a folder with a SKILL.md as somebody would publish it, and returns where it is.
func skillFolder(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	for rel, text := range files {
		at := filepath.Join(dir, rel)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// script proposes a script of a skill.
func (d *daemon) script(id, name string, args ...string) client.CallRequest {
	raw, _ := json.Marshal(map[string]any{"script": name, "args": append([]string{}, args...)})
	return client.CallRequest{
		Tool: palyra.ToolName("skill." + id + ".run"), Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI,
	}
}

// A script of an imported folder runs, as it was signed, in a room that has what was granted and nothing else.
func TestScriptOfAFolder(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	d.put("data.txt", "hello from the workspace\n")
	dir := skillFolder(t, "say", map[string]string{
		"SKILL.md": "---\nname: say\ndescription: Says things.\n---\n# Say\n",
		"scripts/say.sh": "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\"\necho \"$said $1\"\n" +
			"read x < data.txt; echo \"read: $x\"\n/usr/bin/curl --version\necho \"curl: $?\"\n" +
			"chmod 777 data.txt && echo WORKED\ntouch -d @0 data.txt && echo WORKED\ntouch -d @0 . && echo WORKED\n",
		"scripts/lib.sh": "said='from the pack'\n",
	})
	d.mustPalyra("skills", "import", dir)
	d.mustPalyra("skills", "enable", "say", "--grant", "programs:sh", "--grant", "programs:dirname",
		"--grant", "programs:chmod", "--grant", "programs:touch")
	out, _ := d.allowed(d.script("say", "scripts/say.sh", "Ada"))
	if !strings.HasPrefix(out.Stdout, "from the pack Ada\n") || strings.Contains(out.Stdout, "hello") ||
		!strings.Contains(out.Stdout, "curl: 126") || strings.Contains(out.Stdout, "WORKED") {
		t.Errorf("%s\n%s\n%s", out.Reason, out.Stdout, out.Stderr)
	}
	p := predicate(t, out)
	if p.Runtime == nil || p.Runtime.Skill != "say@0.0.1" ||
		p.Tier != palyra.TierC || !slices.Contains(p.Enforcement.Mechanisms, "skill_cage") {
		t.Errorf("%+v", p)
	}
}

// Of the repository that its workspace is a work tree of a script changes nothing, not even a mode.
func TestScriptLeavesTheRepositoryAlone(t *testing.T) {
	y := newYard(t)
	y.person("cd main && git worktree add -q ../a")
	y.mustStart()
	y.mustRegister("a")
	branch := filepath.Join(y.top, "main/.git/refs/heads/main")
	before, err := os.Stat(branch)
	if err != nil {
		t.Fatal(err)
	}
	y.mustPalyra("skills", "import", skillFolder(t, "mode", map[string]string{
		"SKILL.md": "# Mode\n", "x.sh": "chmod 777 " + branch + " && echo WORKED\necho ran\n",
	}))
	y.mustPalyra("skills", "enable", "mode", "--all")
	r := y.script("mode", "x.sh")
	r.Workspace = filepath.Join(y.top, "a")
	out, _ := y.allowed(r)
	after, err := os.Stat(branch)
	if out.Stdout != "ran\n" || err != nil || after.Mode() != before.Mode() {
		t.Errorf("%s %s\n%s\n%s\n%v %v", out.ReasonCode, out.Reason, out.Stdout, out.Stderr, after, err)
	}
}
