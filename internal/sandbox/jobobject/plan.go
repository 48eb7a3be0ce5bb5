package jobobject

import (
	"palyra"
	"palyra/internal/sandbox"
)

// jobSpec is everything that decides what a run will be able to do.
type jobSpec struct {
	token       tokenPlan
	job         jobPlan
	mitigations uint64
	access      []access
	program     string
	command     string
	environment []uint16
	dir         string
}

// tokenPlan describes a token that is made from the daemon's.
type tokenPlan struct {
	deny      []string // groups that count for denying only, if the user is in them
	restrict  []string // SIDs of which one must have access, besides the user
	logon     bool     // the session's own SID is one of these as well: it opens the desktop
	integrity string
	flags     uint32
	owner     string // SID with full access to what the run makes, besides the user and the system
}

// Flags of CreateRestrictedToken.
const (
	noPrivileges = 0x1 // except to pass through directories
	luaToken     = 0x4 // administrators' tokens become those of ordinary users
)

// jobPlan describes a job object.
type jobPlan struct {
	flags     uint32
	processes uint32
	memory    uint64 // bytes committed by all together
	time      int64  // of all together in user mode, in units of 100 ns
	ui        uint32
}

// The limits of a job; none of those that let a process break away.
const (
	limitTime     = 0x00000004
	limitActive   = 0x00000008
	limitMemory   = 0x00000200
	dieOnFault    = 0x00000400 // no dialog waits for an answer
	killOnClose   = 0x00002000
	breakaway     = 0x00000800 | 0x00001000 // never set
	jobFlags      = limitTime | limitActive | limitMemory | dieOnFault | killOnClose
	uiEverything  = 0xff // windows, clipboard, settings, atoms, desktops, log-off
	allProcesses  = 1 << 16
	unitsPerMilli = 10_000
	page          = 4096
)

// Mitigations of the system that are switched on for a run. Those that forbid code made at run time, and images
// of low integrity, are not among them, because runs build programs and start them.
const (
	depEnable          = 0x1
	sehOverwrite       = 0x4
	heapTerminate      = 0x1 << 12
	bottomUpASLR       = 0x1 << 16
	highEntropyASLR    = 0x1 << 20
	noExtensionPoints  = 0x1 << 32
	noForeignFonts     = 0x1 << 48
	noRemoteImages     = 0x1 << 52
	preferSystemImages = 0x1 << 60
	mitigations        = depEnable | sehOverwrite | heapTerminate | bottomUpASLR | highEntropyASLR | noExtensionPoints |
		noForeignFonts | noRemoteImages | preferSystemImages
)

// The limits where a plan names none.
const (
	defaultCPUMS     = 10 * 60 * 1000
	defaultMemory    = 2 << 30
	defaultProcesses = 512
)

// resolve makes the jobSpec of a job, for a daemon's state on a system.
func resolve(j sandbox.Job, state string, s system) (jobSpec, error) {
	if err := check(j); err != nil {
		return jobSpec{}, err
	}
	work, run := workspaceSID(state, j.Workspace), ownSID("run", state, j.Private)
	p := jobSpec{
		token: tokenPlan{
			deny: powerful, restrict: []string{work, run, everyone, users, restricted}, logon: true, integrity: lowIntegrity,
			flags: noPrivileges | luaToken, owner: run,
		},
		job: limits(j.Limits), mitigations: mitigations, access: given(j, work, run), program: j.Path, dir: j.Cwd,
	}
	var err error
	if p.command, err = compose(j.Argv); err != nil {
		return jobSpec{}, err
	}
	p.environment, err = block(s.environment(j.Env, j.Private))
	return p, err
}

// limits turns a plan's limits into a job's.
func limits(l palyra.Limits) jobPlan {
	or := func(v, otherwise int64) int64 {
		if v <= 0 {
			return otherwise
		}
		return v
	}
	return jobPlan{
		flags: jobFlags, ui: uiEverything, processes: uint32(min(or(l.Processes, defaultProcesses), allProcesses)),
		memory: uint64(max(page, or(l.MemoryBytes, defaultMemory)&^(page-1))), time: min(or(l.CPUMS, defaultCPUMS), 1<<40) * unitsPerMilli,
	}
}

// heldBy reports whether a job's limits, read back, are at least as strict.
func (p jobPlan) heldBy(got jobPlan) bool {
	return got.flags&p.flags == p.flags && got.flags&breakaway == 0 && got.ui&p.ui == p.ui && got.processes == p.processes &&
		got.memory > 0 && got.memory <= p.memory && got.time > 0 && got.time <= p.time
}
