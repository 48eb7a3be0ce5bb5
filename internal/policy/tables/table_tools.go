package tables

import "palyra"

// processTool runs programs.
const processTool = palyra.ToolProcessRun

// tableTools are Palyra's own tools as far as policy sees them, so that tests need
// only name them. A test holds this against the tools themselves.
var tableTools = func() map[palyra.ToolName]palyra.Tool {
	look := []palyra.Capability{palyra.FilesystemRead}
	change := []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite}
	m := map[palyra.ToolName]palyra.Tool{}
	for _, t := range []palyra.Tool{
		{Name: palyra.ToolEcho, ReadOnly: true},
		{Name: palyra.ToolSleep, ReadOnly: true},
		{Name: palyra.ToolArtifactRead, ReadOnly: true, Capabilities: []palyra.Capability{palyra.ArtifactsRead}},
		{Name: palyra.ToolFileList, ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: palyra.ToolFileRead, ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: palyra.ToolFileSearch, ReadOnly: true, Workspace: true, Capabilities: look},
		{Name: palyra.ToolFileWrite, Workspace: true, Capabilities: change},
		{Name: palyra.ToolFileEdit, Workspace: true, Capabilities: change},
		{Name: palyra.ToolFilePatch, Workspace: true, Capabilities: change},
		{Name: palyra.ToolUndo, Workspace: true, Capabilities: change},
		{Name: palyra.ToolStageKeep, Workspace: true, Capabilities: change},
		{Name: palyra.ToolStageDrop, Workspace: true, Capabilities: change},
		{Name: palyra.ToolFetch, Capabilities: []palyra.Capability{palyra.Network}},
		{Name: palyra.ToolAllowHost, ReadOnly: true, Workspace: true, Capabilities: []palyra.Capability{palyra.Network}},
		{Name: palyra.ToolPairDevice, Capabilities: []palyra.Capability{palyra.DevicePair}},
		{
			Name: processTool, Workspace: true, Tier: palyra.TierC,
			Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead},
		},
		{
			Name: palyra.ToolProcessStart, Workspace: true, Tier: palyra.TierC,
			Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead},
		},
		{Name: palyra.ToolProcessList, ReadOnly: true},
		{Name: palyra.ToolProcessPrint, ReadOnly: true},
		{Name: palyra.ToolProcessStop, ReadOnly: true},
	} {
		t.Source = palyra.SourceBuiltin
		if t.Tier == "" {
			t.Tier = palyra.TierBuiltin
		}
		m[t.Name] = t
	}
	return m
}()
