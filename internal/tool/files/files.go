// Package files has the tools that work on files of a workspace: fs.read,
// fs.list, fs.search, fs.write, fs.edit and fs.apply_patch.
//
// Words: a path is relative to the workspace, slash-separated and clean; the
// real path is what it stands for once links are followed; a change is one file
// as it is and as it shall be.
//
// Promises. Nothing outside the workspace is read or written, whatever links,
// renames or mounts of links do meanwhile: every open starts at a descriptor of
// the workspace and follows no link at all (openat2 with RESOLVE_BENEATH and
// RESOLVE_NO_SYMLINKS; where the kernel lacks it, one component at a time with
// O_NOFOLLOW). Reads may name a link: the plan follows it, binds the real path
// and is refused when that lies outside. Writes never pass a link. Only regular
// files are opened. A write replaces files whole, by rename, all of a call or
// none, after checking that each is still what the plan bound; a failure at any
// step takes back what was done and leaves no temporary file.
//
// What is written follows from the plan's digest alone: the arguments, and the
// content and mode of every file that the result is made from, copied ones
// included. A file that does not exist yet is bound with the mode it will get,
// and directories on the way to it get theirs from that. A group or an access
// list that a directory hands down to new files is not bound; the mode bounds
// what such a list lets in.
//
// A daemon that runs as root works with the file permissions of the workspace's
// owner, on a thread of its own: what the owner could not read or write the
// tools cannot either, and what they make belongs to the owner.
//
// What leads outside without being a link in a path is not told apart: a hard link
// is the file itself (a write replaces this name only and says that there are
// others), and what somebody mounted in the workspace is part of it (a write says
// so). Making either takes rights outside of the workspace.
//
// What an attacker can still do: a process of the same user that writes to the
// very file at the very moment of the rename has its version moved aside and
// noticed, and the call is taken back; one that moves a whole directory out of
// the workspace at that moment sees the change there until it is taken back.
// A crash between the rename and the clean-up leaves a file named
// ".palyra-<call>-*.tmp", and one while a directory is made leaves an empty
// directory of such a name; the call is then on record as unknown, and Sweep takes
// them away at the next start.
package files

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/memory"
)

// Config sets the bounds of the tools. Zero fields get the defaults.
type Config struct {
	MaxFile int64          // largest file that is changed, in bytes; default 32 MiB
	Memory  *memory.Budget // what calls may hold at once; default: DefaultMemory
	Keeper  Keeper         // keeps what changes replace, so that they can be undone; nil: nobody does
}

// Replaced is a path that a call changes: what was there and what is; nil: nothing.
type Replaced struct {
	Path     string
	Was, Now *palyra.PathState
	Before   []byte // content of the file that was there
}

// Keeper keeps what changes replace.
type Keeper interface {
	// Remember is told before anything changes, and its answer whether it did. It is called with the permissions of the
	// workspace's owner, uid and gid.
	Remember(ctx context.Context, call palyra.CallID, workspace string, uid, gid int64, all []Replaced) (changed func(bool))
}

const (
	defaultMaxFile = 32 << 20
	smallInput     = 64 << 10
	patchInput     = 4 << 20
	writeInput     = 9 << 20 // room for 6 MiB of content as base64
)

// What calls hold in memory at once, planning and running, over all callers; what
// one of them may have of it, and how long a call waits for its part.
const (
	holdTotal    = 512 << 20
	holdShare    = 256 << 20
	holdPatience = 15 * time.Second
)

// DefaultMemory returns the budget that tools have when none is given.
func DefaultMemory() *memory.Budget { return memory.NewBudget(holdTotal, holdShare, holdPatience) }

func (c Config) withDefaults() Config {
	if c.MaxFile <= 0 {
		c.MaxFile = defaultMaxFile
	}
	if c.Memory == nil {
		c.Memory = DefaultMemory()
	}
	return c
}

// spec fills in what all the tools share.
func spec(name palyra.ToolName, title, description, schema string) palyra.Tool {
	return palyra.Tool{
		Name: name, Title: title, Description: description, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin,
		Capabilities: []palyra.Capability{palyra.FilesystemRead}, ReadOnly: true, Workspace: true,
		InputSchema: json.RawMessage(schema), MaxInput: smallInput,
	}
}

// writing makes a spec one of a tool that changes files.
func writing(t palyra.Tool, maxInput int64) palyra.Tool {
	t.Capabilities = []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite}
	t.ReadOnly, t.MaxInput = false, maxInput
	return t
}
