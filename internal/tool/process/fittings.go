package process

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/subpath"
)

// Profiles knows the profiles of rooms in tier C.
type Profiles interface {
	// For names the profile of a command for which the call names none.
	For(command string) string
	// Resolve returns what a profile adds to a run in the workspace. Equal worlds give equal
	// answers; it is called for every plan.
	Resolve(name string, ws palyra.WorkspaceRef) (Fittings, error)
}

// Hosts knows which hosts may be asked for.
type Hosts interface {
	// Check returns host:port entries in their one form, or refuses them. It looks nothing up.
	Check(hosts []string) ([]string, error)
}

// Fittings is what a profile adds to a run in tier C. The operator answers for it: it may set
// variables that no caller may.
type Fittings struct {
	Name        string
	Mounts      []palyra.Mount
	Files       []palyra.RoomFile
	Seals       []string // names below the workspace that are sealed; the whole list, not additions
	Env         []palyra.EnvVar
	Path        []string // directories of the room that come before the usual ones
	Egress      []string // host:port
	UnixSockets bool
	Asks        bool // every call with it is asked about
	Notes       []string
}

const (
	maxMounts    = 128
	maxFiles     = 64
	maxFileBytes = 256 << 10 // of all files of a room together
	maxSeals     = 1024
)

// needsRoom refuses arguments that only tier C supports.
func (a arguments) needsRoom(t palyra.Tier) error {
	if t == palyra.TierC {
		return nil
	}
	switch {
	case a.Script != nil:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "scripts run in tier C only").
			WithRemedy("call with tier c; or write the script to a file of the workspace and run it: command sh, args [FILE]")
	case a.AgentSocket:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "agents run in tier C only").WithRemedy("call with tier c")
	case a.Profile != "" && a.Profile != palyra.NoProfile:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "profiles are for tier C only: tier %s has no room of its own", t).
			WithRemedy("call with tier c, or without a profile")
	case len(a.Bindings) > 0:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "secrets are lent to programs in tier C only").
			WithRemedy("call with tier c, or without bindings")
	case len(a.Egress) > 0:
		return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "programs in tier %s have no network: %s cannot be reached", t,
			show.Arg(palyra.Clip(a.Egress[0], 128))).
			WithRemedy("call with tier c, or without egress")
	}
	return nil
}

// room returns the fittings of the call's profile. Without a profile they are empty but for the usual sealed names.
func (d *Driver) room(a arguments, p palyra.Plan) (Fittings, error) {
	if p.Tier != palyra.TierC {
		return Fittings{}, nil
	}
	name := a.Profile
	if name == "" && d.Profiles != nil {
		command, _ := a.command()
		name = d.Profiles.For(path.Base(command))
	}
	if name == "" || name == palyra.NoProfile {
		return Fittings{Seals: d.Seals}, nil
	}
	if d.Profiles == nil {
		return Fittings{}, palyra.Errorf(palyra.NotFound, palyra.ReasonBadProfile, "there are no profiles here").
			WithRemedy("call without a profile")
	}
	r, err := d.Profiles.Resolve(name, p.Workspace)
	if err != nil {
		return Fittings{}, err
	}
	r.Name = cmp.Or(r.Name, name)
	return r, r.check(p.Workspace.Path)
}

// agent adds what a program that is an agent itself needs: the command that speaks to Palyra, and
// the use of sockets.
func (d *Driver) agent(r Fittings) Fittings {
	r.Mounts = slices.Concat(r.Mounts, d.Agent)
	for _, m := range d.Agent {
		r.Path = append([]string{path.Dir(m.Target)}, r.Path...)
	}
	r.UnixSockets = true
	return r
}

// check refuses a profile of which no room can be made. A profile is the operator's; its faults are
// reported before anything runs.
func (r Fittings) check(workspace string) error {
	if !path.IsAbs(workspace) { // nothing could be inside a relative path
		return badProfile(r, "there is no workspace to hold it against: %s", quote(workspace))
	}
	size, seen := 0, map[string]bool{}
	taken := func(target string) bool {
		was := seen[target]
		seen[target] = true
		return was
	}
	for _, m := range r.Mounts {
		switch {
		case !isCleanAbs(m.Source) || !isCleanAbs(m.Target):
			return badProfile(r, "a mount needs two whole paths: %s at %s", quote(m.Source), quote(m.Target))
		case subpath.Within(workspace, m.Target):
			return badProfile(r, "the mount %s lies in the workspace", quote(m.Target))
		case taken(m.Target):
			return badProfile(r, "two things lie at %s", quote(m.Target))
		}
	}
	for _, f := range r.Files {
		size += len(f.Text)
		switch {
		case !isCleanAbs(f.Target) || subpath.Within(workspace, f.Target):
			return badProfile(r, "the file %s needs a whole path outside the workspace", quote(f.Target))
		case taken(f.Target):
			return badProfile(r, "two things lie at %s", quote(f.Target))
		}
	}
	for _, dir := range r.Path {
		if !isCleanAbs(dir) || strings.Contains(dir, ":") {
			return badProfile(r, "%s cannot be a directory of the lookup path", quote(dir))
		}
	}
	switch {
	case len(r.Mounts) > maxMounts || len(r.Files) > maxFiles || len(r.Seals) > maxSeals || size > maxFileBytes:
		return badProfile(r, "it has too many mounts, files or seals, or too long files")
	case slices.Contains(r.Seals, ""):
		return badProfile(r, "a seal needs a name")
	}
	return nil
}

// isCleanAbs reports whether a path is absolute, clean and not the root.
func isCleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && len(p) <= maxPath && strings.IndexByte(p, 0) < 0
}

func badProfile(r Fittings, format string, args ...any) *palyra.Error {
	e := palyra.Errorf(palyra.Invalid, palyra.ReasonBadProfile, format, args...)
	e.Text = "the profile " + quote(r.Name) + " cannot be used: " + e.Text
	return e.WithRemedy("an operator can correct it, see 'palyra sandbox profiles'; or call with another profile")
}

// furnish writes the room into the plan, in a fixed order.
func (d *Driver) furnish(r Fittings, a arguments, p *palyra.Plan) (err error) {
	if p.Tier != palyra.TierC {
		return nil
	}
	p.Profile, p.UnixSockets, p.Asks = r.Name, r.UnixSockets, r.Asks
	p.Mounts = slices.SortedFunc(slices.Values(slices.Concat(p.Mounts, r.Mounts)),
		func(a, b palyra.Mount) int { return strings.Compare(a.Target, b.Target) })
	p.Files = slices.SortedFunc(slices.Values(r.Files), func(a, b palyra.RoomFile) int { return strings.Compare(a.Target, b.Target) })
	p.Seals = slices.Clone(r.Seals)
	if !slices.IsSorted(p.Seals) {
		slices.Sort(p.Seals)
	}
	p.Seals = slices.Compact(p.Seals)
	for _, n := range r.Notes {
		note(p, "%s", n)
	}
	if p.Egress, err = d.egress(a, r, p); err != nil {
		return err
	}
	if len(p.Egress) > 0 && !slices.Contains(p.Capabilities, palyra.Network) {
		p.Capabilities = append(slices.Clone(p.Capabilities), palyra.Network)
		slices.Sort(p.Capabilities)
	}
	return nil
}
