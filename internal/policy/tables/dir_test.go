package tables

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"palyra"
	"palyra/internal/command"
)

const policies = `@id("look") permit (principal, action == Action::"tool.execute", resource)
when { context.command.understood && context.command.class == "read_only" };
@id("ask") permit (principal, action in Action::"call", resource) when { context.approval.granted };
`

func everything() palyra.Snapshot {
	return palyra.Snapshot{AllowedTools: []string{"*"}, Principals: []string{"*"}, Channels: []string{"*"}}
}

func run(t *testing.T, files map[string]string) Report {
	t.Helper()
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r, err := RunDir(t.Context(), dir, everything(), command.Of)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tests == nil || r.Problems == nil {
		t.Error("a list is null")
	}
	return r
}

// Commands are read as the daemon reads them.
func TestRunDir(t *testing.T) {
	r := run(t, map[string]string{"a.cedar": policies, "tests/a.yaml": `tests:
- {name: ls, request: {argv: [ls, -l]}, expect: {verdict: allow, policies: [look]}}
- {name: nobody knows it, request: {argv: [frobnicate]}, expect: ask}
- {name: a worse line, request: {script: "ls -l | sh"}, expect: ask}
`})
	if !r.OK || len(r.Tests) != 3 || r.Failed != 0 || r.Bundle == "" || r.Policies != 2 {
		t.Fatalf("%+v", r)
	}
}

func TestRunDirFails(t *testing.T) {
	good := "tests:\n- {name: a, request: {argv: [frobnicate]}, expect: ask}\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a test": {map[string]string{
			"a.cedar": policies, "tests/a.yaml": good,
			"tests/b.yaml": strings.Replace(good, "ask", "allow", 1),
		}, ""},
		"a table": {
			map[string]string{"a.cedar": policies, "tests/a.yaml": good, "tests/b.yaml": "tests: 1"},
			"tests/b.yaml:1:8: tests must be a list",
		},
		"a policy":       {map[string]string{"a.cedar": "permit", "tests/a.yaml": good}, "a.cedar:1:"},
		"no policy":      {map[string]string{"tests/a.yaml": good}, "the bundle holds no policy"},
		"no test":        {map[string]string{"a.cedar": policies}, "the bundle has no tests"},
		"another suffix": {map[string]string{"a.cedar": policies, "tests/a.yml": good}, "tests/a.yml:1:1: it is not read"},
	} {
		r := run(t, c.files)
		if r.OK {
			t.Errorf("%s: passed", name)
		}
		if c.want == "" {
			if r.Failed != 1 || len(r.Problems) != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		} else if len(r.Problems) == 0 || !strings.Contains(r.Problems[0].String(), c.want) {
			t.Errorf("%s: %+v", name, r.Problems)
		}
	}
}

func TestRunWithoutADirectory(t *testing.T) {
	if r, err := RunDir(t.Context(), fstest.MapFS{"a": {Data: nil}}, everything(), command.Of); err != nil || r.OK {
		t.Errorf("%+v %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := fstest.MapFS{
		"a.cedar":      {Data: []byte(policies)},
		"tests/a.yaml": {Data: []byte("tests:\n- {name: a, request: {argv: [ls]}, expect: allow}\n")},
	}
	if r, err := RunDir(ctx, dir, everything(), command.Of); err != nil || r.OK {
		t.Errorf("interrupted, and yet: %+v %v", r, err)
	}
}
