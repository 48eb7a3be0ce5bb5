package policy

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"palyra"
)

// load makes a bundle of one file, a.cedar.
func load(t testing.TB, text string) *Bundle {
	t.Helper()
	b, err := Load(dir(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dir(text string) fstest.MapFS {
	return fstest.MapFS{"a.cedar": {Data: []byte(text)}}
}

func defaults(t testing.TB) *Bundle {
	t.Helper()
	b, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open is a configuration that lets everything in, so that policies decide.
func open() palyra.Snapshot {
	return palyra.Snapshot{
		AllowedTools: []string{"*"}, Principals: []string{"*"}, Channels: []string{"*"}, MaxCallsPerRun: 64,
	}
}

func engine(t testing.TB, b *Bundle) *Engine {
	t.Helper()
	e, err := New(Config{Bundle: b, Snapshot: open()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// echo is the most harmless request there is.
func echo() palyra.Request {
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceCLI,
		Tool: palyra.Tool{Name: "palyra.echo", Source: palyra.SourceBuiltin, ReadOnly: true, Tier: palyra.TierBuiltin},
		Plan: palyra.Plan{Tool: "palyra.echo", Arguments: []byte(`{"text":"hi"}`), ReadOnly: true, Tier: palyra.TierBuiltin},
	}
}

// write is a call that changes files of a registered workspace.
func write(paths ...string) palyra.Request {
	caps := []palyra.Capability{palyra.FilesystemWrite}
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceMCP,
		Tool: palyra.Tool{Name: "palyra.fs.write", Source: palyra.SourceBuiltin, Capabilities: caps, Workspace: true, Tier: palyra.TierBuiltin},
		Plan: palyra.Plan{
			Tool: "palyra.fs.write", Capabilities: caps, Writes: paths, Tier: palyra.TierBuiltin,
			Workspace: palyra.WorkspaceRef{Path: "/w", Known: true},
		},
	}
}

func ids(v palyra.Verdict) string {
	var out []string
	for _, p := range v.Policies {
		out = append(out, p.ID)
	}
	return strings.Join(out, " ")
}

func TestNewRefusesNoBundle(t *testing.T) {
	if _, err := New(Config{}); palyra.CodeOf(err) != palyra.Invalid {
		t.Fatalf("New without a bundle: %v", err)
	}
}

func TestSwapKeepsTheOldOneOnError(t *testing.T) {
	b := defaults(t)
	e := engine(t, b)
	if err := e.Swap(Config{}); err == nil {
		t.Fatal("swapped in no bundle")
	}
	bad := open()
	bad.ProcessRunner = map[string]any{"x": func() {}} // has no digest
	if err := e.Swap(Config{Bundle: load(t, `@id("a") permit (principal, action, resource);`), Snapshot: bad}); err == nil {
		t.Fatal("swapped in a snapshot without a digest")
	}
	if e.Bundle() != b {
		t.Fatal("a failed swap changed the bundle")
	}
	if v := e.Judge(t.Context(), echo()); v.Effect != palyra.Allow {
		t.Fatalf("after failed swaps: %+v", v)
	}
}

func TestSnapshotCarriesTheBundle(t *testing.T) {
	b := defaults(t)
	e := engine(t, b)
	s := e.Snapshot()
	if s.Bundle != b.Digest() {
		t.Fatalf("snapshot names bundle %s, want %s", s.Bundle, b.Digest())
	}
	want, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	v := e.Judge(t.Context(), echo())
	if v.Snapshot != want || v.Bundle != b.Digest() {
		t.Fatalf("verdict refers to %s and %s", v.Snapshot, v.Bundle)
	}
}

// A verdict is made with one bundle and one snapshot, whatever is swapped
// meanwhile.
func TestSwapIsAtomic(t *testing.T) {
	yes, no := load(t, `@id("yes") permit (principal, action, resource);`), load(t, `@id("no") forbid (principal, action, resource);`)
	e := engine(t, yes)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			b := []*Bundle{yes, no}[i%2]
			if err := e.Swap(Config{Bundle: b, Snapshot: open()}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		v := e.Judge(t.Context(), echo())
		if want := map[palyra.Digest]palyra.Effect{yes.Digest(): palyra.Allow, no.Digest(): palyra.Deny}[v.Bundle]; v.Effect != want {
			t.Fatalf("bundle %s answered %s", v.Bundle, v.Effect)
		}
	}
	wg.Wait()
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		list string
		name string
		want bool
	}{
		{"", "palyra.echo", false},
		{"palyra.echo", "palyra.echo", true},
		{"palyra.echo", "palyra.echo2", false},
		{"palyra.echo", "", false},
		{"palyra.*", "palyra.echo", true},
		{"palyra.*", "palyra", false},
		{"mcp.*,palyra.echo", "palyra.echo", true},
		{"*", "anything", true},
		{"pal*yra", "palyra", false}, // a star is one only at the end
	} {
		if got := newNames(strings.Split(c.list, ",")).has(c.name); got != c.want {
			t.Errorf("%q has %q = %v", c.list, c.name, got)
		}
	}
	if (names{}).has("x") || newNames(nil).has("x") || newNames(nil).has("") {
		t.Error("an empty list lets something in")
	}
}

func TestProblemsText(t *testing.T) {
	var many Problems
	for range 12 {
		many = append(many, Problem{File: "a.cedar", Line: 3, Column: 7, Text: "wrong"})
	}
	err := bundleError(many...)
	if !strings.Contains(err.Error(), "a.cedar:3:7: wrong") || !strings.Contains(err.Error(), "and 2 more") {
		t.Fatalf("text: %s", err)
	}
	var got Problems
	if !errors.As(err, &got) || len(got) != 12 {
		t.Fatalf("Problems are not in the chain: %v", got)
	}
}
