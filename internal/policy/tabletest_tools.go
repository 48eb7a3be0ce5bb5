package policy

import "palyra"

// processTool runs programs.
const processTool = "palyra.process.run"

// tableTools are Palyra's own tools as far as policy sees them, so that tests need
// only name them. A test holds this against the tools themselves.
var tableTools = func() map[string]palyra.Tool {
	look := []palyra.Capability{palyra.FilesystemRead}
	change := []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite}
	m := map[string]palyra.Tool{}
	for _, t := range []palyra.Tool{
		{Name: "palyra.echo", ReadOnly: true},
		{Name: "palyra.sleep", ReadOnly: true},
		{Name: "palyra.artifact.read", ReadOnly: true, Capabilities: []palyra.Capability{palyra.ArtifactsRead}},
		{Name: "palyra.fs.list", ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: "palyra.fs.read", ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: "palyra.fs.search", ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: "palyra.fs.write", Workspace: true, Capabilities: change},
		{Name: "palyra.fs.edit", Workspace: true, Capabilities: change},
		{Name: "palyra.fs.apply_patch", Workspace: true, Capabilities: change},
		{Name: "palyra.http.fetch", Capabilities: []palyra.Capability{palyra.Network}},
		{Name: "palyra.egress.allow", ReadOnly: true, Workspace: true, Capabilities: []palyra.Capability{palyra.Network}},
		{Name: "palyra.device.pair", Capabilities: []palyra.Capability{palyra.DevicePair}},
		{
			Name: processTool, Workspace: true, Tier: palyra.TierC,
			Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead},
		},
	} {
		t.Source = palyra.SourceBuiltin
		if t.Tier == "" {
			t.Tier = palyra.TierBuiltin
		}
		m[t.Name] = t
	}
	return m
}()
