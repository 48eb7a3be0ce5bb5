package jobobject

import (
	"log/slog"

	"palyra"
	"palyra/internal/sandbox"
)

// Executor is the backend's name in attestations.
const Executor = "sandbox_tier_c_windows_job_object"

// Config is what a Backend needs.
type Config struct {
	StateID     string       // of the daemon's state: distinguishes its workspaces' SIDs from those of others
	HostNetwork bool         // the operator accepts that runs reach the network; false: the tier is refused
	Log         *slog.Logger // nil: no log
}

func unavailable(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, format, args...)
}

// networkRefusal is the refusal of the tier where the operator has not accepted that runs reach the network.
func networkRefusal() *palyra.Error {
	return unavailable("a restricted token does not keep a program from the network").
		WithRemedy("set egress.host_network = \"on\" to accept that programs reach any host, or run palyrad on Linux")
}

// check refuses a job that no Runner should give, or that this system cannot run.
func check(j sandbox.Job) error {
	bad := func(why string) error {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "jobobject: %s", why)
	}
	cannot := func(what string) error {
		return unavailable("tier C on Windows has no %s", what).WithRemedy("propose the call without it, or run palyrad on Linux")
	}
	switch {
	case j.Stdin == nil || j.Stdout == nil || j.Stderr == nil:
		return bad("a standard stream is missing")
	case !clean(j.Path):
		return bad("the program is not a whole path on a drive")
	case !clean(j.Workspace) || !clean(j.Private):
		return bad("the workspace or the private directory is not a whole path on a drive")
	case !within(j.Workspace, j.Cwd):
		return bad("the working directory is outside the workspace")
	case within(j.Workspace, j.Private) || within(j.Private, j.Workspace):
		return bad("the workspace and the private directory lie in each other")
	case len(j.Argv) == 0:
		return bad("no arguments, not even the program's name")
	case batch(j.Path):
		return palyra.Errorf(palyra.Denied, palyra.ReasonNotExecutable,
			"batch files read their arguments by rules that let an argument become a command").
			WithRemedy("call the program that the file calls")
	case len(j.Seals) > 0:
		return cannot("sealed paths")
	case len(j.Covers) > 0:
		return cannot("files laid over others")
	case len(j.Mounts)+len(j.Files) > 0:
		return cannot("mounts and files of a profile")
	case len(j.Doors) > 0 || j.Unix:
		return cannot("network of its own")
	case j.Terminal:
		return cannot("terminals")
	case j.Sealed != nil:
		return cannot("copies of programs by handle")
	}
	return nil
}
