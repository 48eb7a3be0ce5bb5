package palyra

// The names of Palyra's own tools.
const (
	ToolEcho         = "palyra.echo"
	ToolSleep        = "palyra.sleep"
	ToolProcessRun   = "palyra.process.run"
	ToolFileList     = "palyra.fs.list"
	ToolFileRead     = "palyra.fs.read"
	ToolFileSearch   = "palyra.fs.search"
	ToolFileWrite    = "palyra.fs.write"
	ToolFileEdit     = "palyra.fs.edit"
	ToolFilePatch    = "palyra.fs.apply_patch"
	ToolArtifactRead = "palyra.artifact.read"
	ToolFetch        = "palyra.http.fetch"
	ToolAllowHost    = "palyra.egress.allow" // what a question about a host is a call of
	ToolPairDevice   = "palyra.device.pair"  // what a question about a device is a call of
)
