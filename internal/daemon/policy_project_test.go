//go:build unix

package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/bundle"
	"palyra/internal/policy"
)

// What a workspace forbids is forbidden there; what it says badly, or where a
// link leads out, refuses its calls.
func TestProjectPolicy(t *testing.T) {
	d := testDaemon(t)
	work, outside := t.TempDir(), t.TempDir()
	dir := filepath.Join(work, policy.ProjectDir)
	judge := func() palyra.Verdict {
		t.Helper()
		why, err := d.explainer().Explain(t.Context(), "", palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
			Tool:     "palyra.fs.write", Workspace: work,
			Arguments: json.RawMessage(`{"path":"a","content":"b"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		return why.Verdict
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if v := judge(); v.Effect != palyra.Ask {
		t.Fatalf("without: %s", v.Effect)
	}
	must(os.MkdirAll(dir, 0o755))
	file := filepath.Join(dir, "a.cedar")
	rule := `@id("x") forbid (principal, action == Action::"tool.execute", resource == Tool::"palyra.fs.write");`
	must(os.WriteFile(file, []byte(rule), 0o644))
	for range 2 {
		if v := judge(); v.Effect != palyra.Deny || len(v.Errors) > 0 || v.Policies[0].ID != "project/x" {
			t.Errorf("%+v", v)
		}
	}
	must(os.WriteFile(file, []byte(`@id("x") permit (principal, action, resource);`), 0o644))
	if v := judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("a permit: %+v", v)
	}
	must(os.Remove(file))
	if v := judge(); v.Effect != palyra.Ask {
		t.Errorf("an empty directory: %s", v.Effect)
	}
	must(os.WriteFile(filepath.Join(outside, "b.cedar"), []byte(rule), 0o644))
	must(os.Symlink(filepath.Join(outside, "b.cedar"), file))
	if v := judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("a link to the outside: %+v", v)
	}
	must(os.Remove(file))
	must(syscall.Mkfifo(file, 0o600))
	if v := judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 { // and it is not waited for
		t.Errorf("a pipe: %+v", v)
	}
	must(os.RemoveAll(dir))
	must(os.WriteFile(dir, nil, 0o644))
	if v := judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("a file in place of the directory: %+v", v)
	}
	must(os.Remove(dir))
	must(os.Mkdir(filepath.Join(work, "elsewhere"), 0o755))
	must(os.Symlink("../elsewhere", dir))
	if v := judge(); v.Effect != palyra.Deny || len(v.Errors) == 0 { // what it leads to is not sealed
		t.Errorf("a link inside the workspace: %+v", v)
	}
}

// Whoever names a directory further down in a registered workspace is held to what
// every directory on the way forbids, and to all that is forbidden there at once.
func TestProjectPolicyHoldsBelow(t *testing.T) {
	d := testDaemon(t)
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(work, "a", "b")
	put := func(dir, text string) {
		t.Helper()
		dir = filepath.Join(dir, policy.ProjectDir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.cedar"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	judge := func(workspace, tool, arguments string) palyra.Verdict {
		t.Helper()
		why, err := d.explainer().Explain(t.Context(), "", palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
			Tool:     palyra.ToolName(tool), Workspace: workspace, Arguments: json.RawMessage(arguments),
		})
		if err != nil {
			t.Fatal(err)
		}
		return why.Verdict
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.work.Add(t.Context(), work, "", "user:me", palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	if v := judge(below, "palyra.fs.list", `{"path":"."}`); v.Effect != palyra.Allow {
		t.Fatalf("%+v", v)
	}
	forbid := func(tool string) string {
		return `@id("x") forbid (principal, action == Action::"tool.execute", resource == Tool::"` + tool + `");`
	}
	put(work, forbid("palyra.fs.list"))
	put(below, forbid("palyra.fs.write"))
	for range 2 {
		if v := judge(below, "palyra.fs.list", `{"path":"."}`); v.Effect != palyra.Deny || len(v.Policies) != 1 ||
			v.Policies[0].ID != "project/../../x" || v.Policies[0].File != "../../.palyra/policy/a.cedar" {
			t.Errorf("what is forbidden above: %+v", v)
		}
		if v := judge(below, "palyra.fs.write", `{"path":"n","content":"b"}`); v.Effect != palyra.Deny || len(v.Policies) != 1 ||
			v.Policies[0].ID != "project/x" {
			t.Errorf("what is forbidden here: %+v", v)
		}
		if v := judge(work, "palyra.fs.write", `{"path":"n","content":"b"}`); v.Effect != palyra.Ask {
			t.Errorf("what is forbidden below: %+v", v)
		}
	}
	put(filepath.Join(work, "a"), "nonsense")
	if v := judge(below, "palyra.fs.list", `{"path":"."}`); v.Effect != palyra.Deny || len(v.Errors) == 0 {
		t.Errorf("what is broken on the way: %+v", v)
	}
}

// A hidden directory of a registered workspace is not what was registered: what is
// an ordinary name there makes other programs run code.
func TestHiddenDirectoriesAreNotTheWorkspace(t *testing.T) {
	d := testDaemon(t)
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.work.Add(t.Context(), work, "", "user:me", palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".git/hooks", ".GIT", ".palyra/policy", "sub/.github/workflows"} {
		dir = filepath.Join(work, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		why, err := d.explainer().Explain(t.Context(), "", palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
			Tool:     "palyra.fs.write", Workspace: dir,
			Arguments: json.RawMessage(`{"path":"pre-commit","content":"x"}`),
		})
		if err != nil || why.Plan.Workspace.Known || why.Verdict.Effect != palyra.Ask || !why.Verdict.Need.Fresh {
			t.Errorf("%s: %+v, %v", dir, why.Verdict, err)
		}
	}
}

// Whoever names a directory further up is held to the policies of those further down
// that the call works in.
func TestPoliciesOfPlacesBelow(t *testing.T) {
	d := testDaemon(t)
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(work, "a", "sub", policy.ProjectDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{work, filepath.Join(work, "a", "sub")} {
		if _, err := d.work.Add(t.Context(), where, "", "user:me", palyra.Signature{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "a.cedar"):           `@id("hands-off") forbid (principal, action in Action::"call", resource);`,
		filepath.Join(work, "a", "sub", "file"): "x", filepath.Join(work, "a", "other"): "x",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tool, arguments string
		held            bool
	}{
		{"palyra.fs.read", `{"path":"a/sub/file"}`, true},
		{"palyra.fs.list", `{"path":"a/sub"}`, true},
		{"palyra.fs.write", `{"path":"a/sub/n","content":"b"}`, true},
		{"palyra.fs.write", `{"path":"a/sub/file","content":"b"}`, true},
		{"palyra.fs.read", `{"path":"a/other"}`, false},
		{"palyra.fs.list", `{"path":"a"}`, false},
		{"palyra.fs.write", `{"path":"a/n","content":"b"}`, false},
	} {
		why, err := d.explainer().Explain(t.Context(), "", palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
			Tool:     palyra.ToolName(c.tool), Workspace: work, Arguments: json.RawMessage(c.arguments),
		})
		if err != nil {
			t.Fatal(err)
		}
		v := why.Verdict
		if held := v.Effect == palyra.Deny; held != c.held || held && (len(v.Policies) != 1 || v.Policies[0].ID != "project/a/sub/hands-off" ||
			v.Policies[0].File != "a/sub/.palyra/policy/a.cedar") {
			t.Errorf("%s %s: %s %+v %v", c.tool, c.arguments, v.Effect, v.Policies, v.Errors)
		}
	}
	if b, err := d.projects.Of(work, filepath.Join(work, "a", "sub", "cwd")); err != nil || b == nil {
		t.Errorf("a program that stands there: %v %v", b, err)
	}
	var many []string
	for i := range bundle.MaxBelow + 1 {
		many = append(many, filepath.Join(work, strconv.Itoa(i)))
	}
	if _, err := d.projects.Of(work, many...); palyra.CodeOf(err) != palyra.Denied {
		t.Errorf("too many places: %v", err)
	}
	if b, err := d.projects.Of(work, "/etc", work+"/../x", work); err != nil || b != nil {
		t.Errorf("what is not below: %v %v", b, err)
	}
}
