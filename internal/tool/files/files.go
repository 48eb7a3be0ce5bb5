// Package files has the tools that work on files of a workspace: fs.read, fs.list, fs.search,
// fs.write, fs.edit and fs.apply_patch.
//
// Words: a path is relative to the workspace, slash-separated and clean; the real path is the one
// without links; a change is one file before and after a call.
//
// Promises. Nothing outside the workspace is read or written, whatever links, renames or mounts of links do
// meanwhile: every open starts at a descriptor of the workspace and follows no link at all (openat2 with
// RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; where the kernel lacks it, one component at a time with O_NOFOLLOW).
// Reads may name a link: the plan follows it, binds the real path and is refused when that lies outside. Writes
// never pass a link. Only regular files are opened. A write replaces files whole, by rename, all of a call or none,
// after checking that each is still in the state that the plan bound; a failure at any step takes everything back
// and leaves no temporary file.
//
// The result follows from the plan's digest alone: the arguments, and the content and mode of every file that the
// result is made from, copied ones included. A file that does not exist yet is bound with its future mode, from
// which the directories on the way to it get theirs. A group or an access list that a directory hands down to new
// files is not bound; the mode bounds what such a list lets in.
//
// A daemon that runs as root works with the file permissions of the workspace's owner, on a thread of its own: the
// tools cannot read or write what the owner could not, and what they make belongs to the owner.
//
// Two ways outside that are no links in a path are not recognised: a hard link is the file itself (a write
// replaces this name only and says that there are others), and a file system mounted in the workspace is part
// of it (a write says so). Making either takes rights outside of the workspace.
//
// What an attacker can still do: a process of the same user that writes to the very file at the very moment of the
// rename has its version moved aside and noticed, and the call is taken back; one that moves a whole directory out
// of the workspace at that moment sees the change there until it is taken back. A crash between the rename and the
// clean-up leaves a file named ".palyra-<call>-*.tmp", and one while a directory is made leaves an empty directory
// of such a name; the call is then on record as unknown, and Sweep removes them at the next start.
package files

import (
	"context"
	"encoding/json"
	"time"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/memory"
)

// Config sets the bounds of the tools. Zero fields get the defaults.
type Config struct {
	MaxFile   int64          // largest file that is changed, in bytes; default 32 MiB
	Memory    *memory.Budget // what calls may hold at once; default: DefaultMemory
	Masks     *dotenv.Masks  // which files are shown without their secret values; nil: none
	UndoStore UndoStore      // keeps what changes replace, so that they can be undone; nil: nothing is kept
}

// Replaced is a path that a call changes, before and after; nil: nothing is there.
type Replaced struct {
	Path     string
	Was, Now *palyra.PathState
	Before   []byte // content of the file that was there
	AnyMode  bool   // with which permissions something is made is not known ahead
}

// UndoStore keeps the files that changes replace.
type UndoStore interface {
	// Lasting says for people why changes could not be undone later, or what else could not be because of them; empty:
	// nothing of that. It runs with the permissions of the workspace's owner, as Remember does.
	Lasting(all []Replaced) (why string)
	// Remember is called before anything changes; the function it returns is called with whether
	// the changes were made. An error means that nothing may be changed. Lose: what Lasting says was agreed to.
	// It runs with the permissions of the workspace's owner, uid and gid.
	Remember(ctx context.Context, call palyra.CallID, workspace string, uid, gid int64, all []Replaced, lose bool) (changed func(bool),
		err error)
}

const (
	defaultMaxFile = 32 << 20
	smallInput     = 64 << 10
	patchInput     = 4 << 20
	writeInput     = 9 << 20 // room for 6 MiB of content as base64
)

// The memory that calls hold at once, planning and running, over all callers; the part of it that
// one caller may have, and how long a call waits for its part.
const (
	holdTotal    = 512 << 20
	holdShare    = 256 << 20
	holdPatience = 15 * time.Second
)

// DefaultMemory returns the budget of tools that are given none.
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

// spec fills in what the tools have in common.
func spec(name palyra.ToolName, title, description, schema string) palyra.Tool {
	return palyra.Tool{
		Name: name, Title: title, Description: description, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin,
		Capabilities: []palyra.Capability{palyra.FilesystemRead}, ReadOnly: true, Workspace: true,
		InputSchema: json.RawMessage(schema), MaxInput: smallInput,
	}
}

// writing turns a spec into one of a tool that changes files.
func writing(t palyra.Tool, maxInput int64) palyra.Tool {
	t.Capabilities = []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite}
	t.ReadOnly, t.MaxInput = false, maxInput
	return t
}
