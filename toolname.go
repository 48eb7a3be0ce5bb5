package palyra

// ToolName is a tool as the catalog knows it: palyra.NAME, mcp.SERVER.NAME, skill.NAME.
type ToolName string

// The names of Palyra's own tools.
const (
	ToolEcho         ToolName = "palyra.echo"
	ToolSleep        ToolName = "palyra.sleep"
	ToolProcessRun   ToolName = "palyra.process.run"
	ToolProcessStart ToolName = "palyra.process.start" // a program that runs in the background
	ToolProcessList  ToolName = "palyra.process.list"
	ToolProcessPrint ToolName = "palyra.process.output"
	ToolProcessStop  ToolName = "palyra.process.stop"
	ToolFileList     ToolName = "palyra.fs.list"
	ToolFileRead     ToolName = "palyra.fs.read"
	ToolFileSearch   ToolName = "palyra.fs.search"
	ToolFileWrite    ToolName = "palyra.fs.write"
	ToolFileEdit     ToolName = "palyra.fs.edit"
	ToolFilePatch    ToolName = "palyra.fs.apply_patch"
	ToolArtifactRead ToolName = "palyra.artifact.read"
	ToolUndo         ToolName = "palyra.undo"
	ToolStageKeep    ToolName = "palyra.stage.keep" // what 'palyra keep' is a call of
	ToolStageDrop    ToolName = "palyra.stage.drop" // what 'palyra drop' is a call of
	ToolFetch        ToolName = "palyra.http.fetch"
	ToolAllowHost    ToolName = "palyra.egress.allow" // what a question about a host is a call of
	ToolGitRemote    ToolName = "palyra.git.remote"   // what a question about a repository at a server, or a push to it, is a call of
	ToolSign         ToolName = "palyra.sign"         // what a question about a signature of a commit or tag is a call of
	ToolPairDevice   ToolName = "palyra.device.pair"  // what a question about a device is a call of
)
