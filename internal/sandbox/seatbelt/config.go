package seatbelt

import (
	"log/slog"
	"path"
	"strings"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/subpath"
)

// Executor is the backend's name in attestations.
const Executor = "sandbox_tier_c_macos_sandbox_exec"

// Config is what a Backend needs.
type Config struct {
	Dir string       // own directory: the places of runs under way
	Log *slog.Logger // nil: no log
}

// The programs that apply a profile, and set limits under it. Both are part of the sealed system volume.
const (
	sandboxExec = "/usr/bin/sandbox-exec"
	shell       = "/bin/bash"
)

// The limits of a job.
const (
	maxPath   = 1023 // bytes; the system's own
	maxMounts = 256
	maxFiles  = 256
	maxID     = 1<<32 - 2
)

func spawnFailed(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, format, args...).WithRemedy("see the daemon's log")
}

// check refuses a job that no Runner should give, or that this system cannot run. uid is the daemon's.
func check(j sandbox.Job, uid int64) error {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "seatbelt: %s", why)
	}
	switch {
	case j.Stdin == nil || j.Stdout == nil || j.Stderr == nil:
		return bad("a standard stream is missing")
	case !clean(j.Path):
		return bad("the program is not an absolute path")
	case !clean(j.Workspace):
		return bad("the workspace is not an absolute path")
	case j.Cwd != j.Workspace && !below(j.Workspace, j.Cwd):
		return bad("the working directory is outside the workspace")
	case len(j.Argv) == 0 || strings.ContainsRune(strings.Join(j.Argv, ""), 0) || strings.ContainsRune(strings.Join(j.Env, ""), 0):
		return bad("no arguments, not even the program's name, or one with a zero byte")
	case j.UID < 0 || j.GID < 0 || j.UID > maxID || j.GID > maxID:
		return bad("no such user or group")
	case uid != 0 && j.UID != uid:
		return bad("only root can run a program as somebody else")
	case len(j.Doors) > cell.MaxDoors || (len(j.Doors) > 0 && j.Open == nil):
		return bad("too many doors, or nobody behind them")
	}
	return checkRoom(j)
}

// checkRoom refuses a job that needs a file system of its own.
func checkRoom(j sandbox.Job) error {
	no := func(what, target string) error {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonBadProfile, "macOS cannot show %s at %q", what, palyra.Clip(target, 256)).
			WithRemedy("mount it at its own path, or below %s", cell.RoomHome)
	}
	if len(j.Mounts) > maxMounts || len(j.Files) > maxFiles {
		return no("so many mounts and files", "")
	}
	if len(j.Covers) > 0 {
		return no("another file", j.Covers[0].Path)
	}
	for _, m := range j.Mounts {
		if !clean(m.Source) || (m.Target != m.Source && !below(cell.RoomHome, m.Target)) {
			return no("a mount", m.Target)
		}
	}
	for _, d := range j.Doors {
		if !d.Addr.IsValid() {
			return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "on macOS a run cannot be an agent itself").
				WithRemedy("propose the call without the agent's socket")
		}
	}
	for _, f := range j.Files {
		if !below(cell.RoomHome, f.Target) {
			return no("a file", f.Target)
		}
	}
	return nil
}

// clean reports whether a path is absolute, clean and not the root.
func clean(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && len(p) <= maxPath && !strings.ContainsRune(p, 0)
}

// below reports whether a clean path lies in dir.
func below(dir, p string) bool { return clean(p) && subpath.Below(dir, p) }
