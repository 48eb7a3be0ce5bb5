package stage

import "palyra/internal/change"

// What is different at paths of the workspace after a run.
type (
	Change = change.Change
	State  = change.State
	Kind   = change.Kind
)

// The kinds of things. Sockets and devices are never kept, but may be removed.
const (
	Nothing   = change.Nothing
	File      = change.File
	Directory = change.Directory
	Link      = change.Link
	Pipe      = change.Pipe
	Socket    = change.Socket
	Device    = change.Device
)
