// Package policytest has the bundles, engines and requests that the tests of the packages around
// policy share. Package policy itself has its own: it cannot be tested by what imports it.
package policytest

import (
	"testing"
	"testing/fstest"

	"palyra"
	"palyra/internal/policy"
)

// Load is a bundle of one file.
func Load(t testing.TB, text string) *policy.Bundle {
	t.Helper()
	b, err := policy.Load(fstest.MapFS{"a.cedar": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Defaults are the policies that Palyra comes with.
func Defaults(t testing.TB) *policy.Bundle {
	t.Helper()
	b, err := policy.Default()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Asking are the policies of the preset that asks before every call that can change something.
func Asking(t testing.TB) *policy.Bundle {
	t.Helper()
	files, err := policy.Preset("ask")
	if err != nil {
		t.Fatal(err)
	}
	b, report := policy.Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	return b
}

// Open is a configuration that lets everything in, so that policies decide.
func Open() palyra.Snapshot {
	return palyra.Snapshot{AllowedTools: []string{"*"}, Principals: []string{"*"}, Channels: []string{"*"}, MaxCallsPerRun: 64}
}

// Engine judges with a bundle and the open configuration.
func Engine(t testing.TB, b *policy.Bundle) *policy.Engine {
	t.Helper()
	e, err := policy.New(policy.Config{Bundle: b, Snapshot: Open()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Echo is the most harmless request there is.
func Echo() palyra.Request {
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceCLI,
		Tool: palyra.Tool{Name: "palyra.echo", Source: palyra.SourceBuiltin, ReadOnly: true, Tier: palyra.TierBuiltin},
		Plan: palyra.Plan{Tool: "palyra.echo", Arguments: []byte(`{"text":"hi"}`), ReadOnly: true, Tier: palyra.TierBuiltin},
	}
}

// Write is a call that changes files of a registered workspace.
func Write(paths ...string) palyra.Request {
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

// PermitAll lets everything through.
const PermitAll = `@id("all") @reason("everything goes") permit (principal, action, resource);` + "\n"
