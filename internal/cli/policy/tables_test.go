package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	enginepolicy "palyra/internal/policy"
	"palyra/internal/policy/tables"
)

const tablePolicy = `@id("echo") permit (principal, action, resource == Tool::"palyra.echo");
@id("ask") permit (principal, action in Action::"call", resource) when { context.approval.granted };
`

const tableGood = "tests:\n- {name: echo is allowed, request: {tool: palyra.echo}, expect: allow}\n"

// bundleDir writes a bundle and returns where.
func bundleDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// policyTests runs the command as Main does, with what a.finish says of its end.
func policyTests(t *testing.T, asJSON bool, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	inv := &invocation.Invocation{Stdout: &stdout, Stderr: &stderr, JSON: asJSON}
	cmd := testCommand(inv)
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	code = inv.Finish(cmd.ExecuteContext(context.WithoutCancel(t.Context())))
	return code, stdout.String(), stderr.String()
}

func TestPolicyTest(t *testing.T) {
	dir := bundleDir(t, map[string]string{"a.cedar": tablePolicy, "tests/a.yaml": tableGood})
	code, out, errs := policyTests(t, false, dir)
	if code != exit.OK || errs != "" || !strings.Contains(out, "ok    tests/a.yaml:2  echo is allowed\n") ||
		!strings.Contains(out, "good: 1 test of bundle sha256:") {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
}

func TestPolicyTestFails(t *testing.T) {
	bad := "- {name: \"echo \U0001f600 <&>\", request: {tool: palyra.echo}, expect: deny}\n"
	dir := bundleDir(t, map[string]string{"a.cedar": tablePolicy, "tests/a.yaml": tableGood + bad, "tests/b.yaml": "tests: 5"})
	code, out, errs := policyTests(t, false, dir)
	if code != exit.Failure || !strings.Contains(errs, "1 of 2 tests failed, and 1 problem found") {
		t.Errorf("%d %s", code, errs)
	}
	for _, want := range []string{
		"BAD   tests/b.yaml:1:8: tests must be a list", "FAIL  tests/a.yaml:3  echo ",
		"expected deny, got allow; decided by echo", "ok    tests/a.yaml:2",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "good") {
		t.Error(out)
	}
}

func TestPolicyTestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		code  int
		want  string
	}{
		"no tests":  {map[string]string{"a.cedar": tablePolicy}, exit.Failure, "1 problem found"},
		"no policy": {map[string]string{"tests/a.yaml": tableGood}, exit.Failure, "1 problem found"},
		"a fault":   {map[string]string{"a.cedar": "permit (", "tests/a.yaml": tableGood}, exit.Failure, "1 problem found"},
	} {
		code, _, errs := policyTests(t, false, bundleDir(t, c.files))
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
	if code, _, errs := policyTests(t, false, filepath.Join(t.TempDir(), "absent")); code != exit.Failure ||
		!strings.Contains(errs, "is not a directory") {
		t.Errorf("%d %s", code, errs)
	}
	if code, _, _ := policyTests(t, false); code != exit.Usage {
		t.Errorf("without DIR: %d", code)
	}
}

func TestPolicyTestJSON(t *testing.T) {
	dir := bundleDir(t, map[string]string{"a.cedar": tablePolicy, "tests/a.yaml": strings.Replace(tableGood, "expect: allow", "expect: ask",
		1)})
	code, out, errs := policyTests(t, true, dir)
	var r tables.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%s: %v", out, err)
	}
	if code != exit.Failure || r.OK || r.Failed != 1 || len(r.Tests) != 1 || r.Tests[0].Line != 2 || r.Policies != 2 ||
		!strings.Contains(out, `"problems":[]`) {
		t.Errorf("%d %+v", code, r)
	}
	if !strings.Contains(errs, `"error":{`) {
		t.Error(errs)
	}
}

func TestPolicyTestJUnit(t *testing.T) {
	bad := "- {name: \"<b>&\\\"]]>\", request: {tool: palyra.echo}, expect: deny}\n"
	dir := bundleDir(t, map[string]string{"a.cedar": tablePolicy, "tests/a.yaml": tableGood + bad, "tests/b.yaml": "tests: 5"})
	file := filepath.Join(t.TempDir(), "report.xml")
	if code, _, errs := policyTests(t, false, dir, "--junit", file); code != exit.Failure {
		t.Fatalf("%d %s", code, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all junitSuites
	if err := xml.Unmarshal(raw, &all); err != nil || !bytes.HasPrefix(raw, []byte(xml.Header)) {
		t.Fatalf("%v\n%s", err, raw)
	}
	if all.Tests != 3 || all.Failures != 1 || all.Errors != 1 || len(all.Suites) != 2 {
		t.Fatalf("%+v", all)
	}
	for _, s := range all.Suites {
		switch s.Name {
		case "tests/a.yaml":
			if s.Tests != 2 || s.Failures != 1 || s.Errors != 0 || s.Cases[0].Failure != nil || s.Cases[1].Name != "<b>&\"]]>" ||
				!strings.Contains(s.Cases[1].Failure.Message, "expected deny, got allow") || s.Cases[1].Line != 3 {
				t.Errorf("%+v", s)
			}
		case "tests/b.yaml":
			if s.Tests != 1 || s.Errors != 1 || !strings.Contains(s.Cases[0].Error.Text, "tests/b.yaml:1:8") {
				t.Errorf("%+v", s)
			}
		default:
			t.Errorf("suite %s", s.Name)
		}
	}
	if code, _, errs := policyTests(t, false, dir, "--junit", filepath.Join(file, "x")); code != exit.Failure ||
		!strings.Contains(errs, "cannot be written") {
		t.Errorf("%d %s", code, errs)
	}
}

// What no reader shows reaches neither a terminal nor a report.
func TestPolicyTestIsSafe(t *testing.T) {
	r := tables.Report{
		Tests:    []tables.Result{{File: "tests/\x1b[2Ja.yaml", Name: "a\x1b]0;x\ab", Line: 1, Text: "\u202ec"}},
		Problems: []enginepolicy.Problem{{File: "tests/\x00.yaml", Line: 1, Column: 1, Text: "a\x1b[1mb"}}, Failed: 1,
	}
	var out bytes.Buffer
	wordTables((&invocation.Invocation{}), &out, r)
	raw, err := junitOf(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), string(raw)} {
		if strings.ContainsAny(text, "\x1b\x00\a\u202e\ufffd") {
			t.Errorf("%q", text)
		}
	}
	out.Reset()
	wordTables((&invocation.Invocation{Quiet: true}), &out, tables.Report{OK: true, Tests: []tables.Result{{Name: "fine", OK: true}}})
	if strings.Contains(out.String(), "fine") {
		t.Errorf("quiet: %s", out.String())
	}
}
