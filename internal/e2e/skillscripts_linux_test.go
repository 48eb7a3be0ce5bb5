package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/skill"
)

// enabled imports a folder that asks for what is named, and grants it.
func (u folderUser) enabled(name, script, text string, asks ...string) {
	u.t.Helper()
	dir := skillFolder(u.t.(*testing.T), name, map[string]string{"SKILL.md": "---\nname: " + name + "\n---\n", script: text})
	args := []string{"skills", "import", dir}
	for _, a := range asks {
		args = append(args, "--also", a)
	}
	u.mustPalyra(args...)
	u.mustPalyra("skills", "enable", name, "--all")
}

// A secret is lent to a script as to any program: it has a placeholder, and the value goes in at the bound host alone, which has
// to be granted too. What a script needed of its secrets is what it keeps.
func TestScriptsUseSecrets(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	u := d.saysYes()
	u.enabled("asker", "ask.py", `import os, sys, urllib.request
print("has", os.environ["API_TOKEN"])
u = "https://" + sys.argv[1]
print(urllib.request.urlopen(urllib.request.Request(u, headers={"Authorization": os.environ["API_TOKEN"]})).status)
`, "secrets:api", "secrets:login", "hosts:"+s.at)
	ask := func(at string) palyra.Outcome {
		input, _ := json.Marshal(map[string]any{"script": "ask.py", "args": []string{at}})
		return u.called("skill.asker.run", string(input))
	}
	o := ask(s.at)
	if seen := s.last(); o.ExitCode != 0 || len(seen) != 1 || !strings.Contains(seen[0], lentValue) {
		t.Errorf("%d %s %s %s %q", o.ExitCode, o.Reason, o.Stdout, o.Stderr, seen)
	}
	if strings.Contains(o.Stdout+o.Stderr, lentValue) || !strings.Contains(o.Stdout, "has ghp_") {
		t.Errorf("%s %s", o.Stdout, o.Stderr)
	}
	if o := ask(s.elsewhere); o.ExitCode == 0 || len(s.last()) != 0 {
		t.Errorf("another host: %s %s", o.Stdout, o.Stderr)
	}
	var got skill.Shrinking
	if err := json.Unmarshal([]byte(d.mustPalyra("skills", "shrink", "asker", "--json")), &got); err != nil ||
		strings.Join(got.Needed.Secrets, " ") != "api" || strings.Join(got.Needed.Hosts, " ") != s.at {
		t.Errorf("%+v %v", got, err)
	}
	u.secretsOfOneSkill(s)
	// Without the host, the binding alone opens no way there.
	d.mustPalyra("skills", "enable", "asker", "--grant", "secrets:api", "--grant", "programs:python3")
	if o := ask(s.at); o.ExitCode == 0 || len(s.last()) != 0 {
		t.Errorf("a host that was not granted: %s %s", o.Stdout, o.Stderr)
	}
}

// secretsOfOneSkill: a binding for the tool of one skill is used by that skill's scripts, and by nobody else: neither those of
// another skill, whatever it was granted, nor a program that an agent starts itself.
func (u folderUser) secretsOfOneSkill(s *service) {
	u.t.Helper()
	u.mustVault("", "bind", "own", "--host", s.at, "--header", "Authorization", "--env", "API_TOKEN", "--secret", "token",
		"--tool", "skill.mine.run")
	const text = `import os, sys, urllib.request
urllib.request.urlopen(urllib.request.Request("https://" + sys.argv[1], headers={"Authorization": os.environ["API_TOKEN"]}))
`
	input, _ := json.Marshal(map[string]any{"script": "ask.py", "args": []string{s.at}})
	for _, name := range []string{"mine", "other"} {
		u.enabled(name, "ask.py", text, "secrets:own", "hosts:"+s.at)
		o := u.called("skill."+name+".run", string(input))
		seen := s.last()
		if own := name == "mine"; own != (o.ExitCode == 0 && o.ReasonCode == "" && len(seen) == 1 && strings.Contains(seen[0], lentValue)) ||
			!own && (o.ReasonCode != palyra.ReasonScopeDenied || len(seen) != 0) {
			u.t.Errorf("%s: %d %s %s %s %q", name, o.ExitCode, o.Reason, o.Stdout, o.Stderr, seen)
		}
	}
	o, err := u.agent.Call(u.t.Context(), u.using([]string{"own"}, "true", s.at), nil)
	if err != nil || o.ReasonCode != palyra.ReasonScopeDenied {
		u.t.Errorf("a program of the agent's: %+v %v", o, err)
	}
}

// A script is held to its own workspace and its own run, and what changes while it waits to be let counts.
func TestScriptsBesideOthers(t *testing.T) {
	t.Parallel()
	d, other := newDaemon(t), newDaemon(t) // whose workspace it is not
	d.ownWork()
	other.ownWork()
	theirs := other.put("theirs.txt", "not yours")
	d.put("mine.txt", "mine")
	d.mustStart(unlimited...)
	u := d.saysYes()
	u.enabled("reader", "r.py", `import os, sys, time
for p in sys.argv[1:]:
    try: print(p, open(p).read())
    except OSError as e: print("held", e.errno)
open(os.environ["HOME"] + "/left", "w").write("by a run") if not os.path.exists(os.environ["HOME"] + "/left") else print("FOUND")
`, "read:.", "write:out")
	input := `{"script":"r.py","args":["mine.txt","` + theirs + `"]}`
	missing := u.called("skill.reader.run", input)
	if missing.ReasonCode != palyra.ReasonFileNotFound || missing.Remedy == "" { // what it may write to
		t.Errorf("%+v", missing)
	}
	d.put("out/x", "")
	for range 2 {
		if o := u.called("skill.reader.run", input); o.ExitCode != 0 || !strings.HasPrefix(o.Stdout, "mine.txt mine\nheld ") ||
			strings.Contains(o.Stdout, "FOUND") {
			t.Errorf("%s %s %s", o.Stdout, o.Stderr, o.Reason)
		}
	}
	elsewhere := d.work // the same agent and skill, in the other workspace
	d.work, u.work = other.work, other.work
	other.put("out/x", "")
	if o := u.called("skill.reader.run", input); o.ExitCode != 0 || !strings.Contains(o.Stdout, "not yours") ||
		strings.Contains(o.Stdout, "mine.txt mine") {
		t.Errorf("%s %s %s", o.Stdout, o.Stderr, o.Reason)
	}
	d.work, u.work = elsewhere, elsewhere
	u.refusedPaths(input)
}

// refusedPaths has paths in the way that no cage could hold.
func (u folderUser) refusedPaths(input string) {
	u.t.Helper()
	u.put(".ssh/id_ed25519", "a key")
	if o := u.called("skill.reader.run", input); o.ReasonCode != palyra.ReasonSealDenied || !strings.Contains(o.Reason, ".ssh") {
		u.t.Errorf("a workspace with keys: %+v", o)
	}
	if err := os.RemoveAll(filepath.Join(u.work, ".ssh")); err != nil {
		u.t.Fatal(err)
	}
	out := filepath.Join(u.work, "out")
	if err := os.Rename(out, out+"-real"); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Symlink("/etc", out); err != nil {
		u.t.Fatal(err)
	}
	if o := u.called("skill.reader.run", input); o.ReasonCode != palyra.ReasonPathOutside {
		u.t.Errorf("a path that is a link: %+v", o)
	}
}

// A skill that goes into quarantine, is granted less or is revoked while its call waits for a person does not run.
func TestScriptsThatWaitAreJudgedAnew(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	u := folderUser{user: d.rooted()}
	u.enabled("waits", "w.sh", "echo ran; curl --version\n")
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for what, meanwhile := range map[string][]string{
		"quarantined":  {"skills", "quarantine", "waits"},
		"granted less": {"skills", "enable", "waits", "--grant", "programs:sh"},
		"removed":      {"skills", "remove", "waits"},
	} {
		d.typed("skills", "enable", "waits", "--all")
		ch := propose(t.Context(), agent, d.script("waits", "w.sh"))
		a := d.pending(person)
		if !strings.Contains(strings.Join(a.Plan.Argv, " "), "/skill/waits/w.sh") {
			t.Errorf("%s: the question is about %q", what, a.Plan.Argv)
		}
		if what == "removed" {
			d.mustPalyra("skills", "quarantine", "waits")
		}
		d.mustPalyra(meanwhile...)
		_, _ = person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)) // it may be over by then
		end := <-ch
		if end.err != nil || end.out.Outcome == palyra.OutcomeFinished || strings.Contains(end.out.Stdout, "ran") || end.out.ReasonCode == "" {
			t.Errorf("%s: %v %+v", what, end.err, end.out)
		}
		if what == "removed" {
			u.enabled("waits", "w.sh", "echo ran; curl --version\n")
		}
	}
	u.takenAway(agent)
	for _, id := range []string{"waits", "sleeps"} { // what turns the refusals is then to do it again
		d.mustPalyra("skills", "enable", id, "--all")
	}
}

// takenAway has a skill taken away while its script runs: whoever does it is answered when nothing of it runs any more.
func (u folderUser) takenAway(agent *client.Client) {
	u.t.Helper()
	u.enabled("sleeps", "s.sh", "echo begun; sleep 30; touch out/ended\n", "programs:touch", "write:out")
	u.put("out/x", "")
	run := u.fedLive(agent, u.script("sleeps", "s.sh"), palyra.ScopeOnce)
	u.mustPalyra("skills", "quarantine", "sleeps")
	end := <-run.end
	if end.err != nil || end.out.ReasonCode != "skill_taken_away" {
		u.t.Errorf("%v %+v", end.err, end.out)
	}
	if _, err := os.Lstat(filepath.Join(u.work, "out/ended")); err == nil {
		u.t.Error("it went on")
	}
}
