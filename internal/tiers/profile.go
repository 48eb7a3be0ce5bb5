package tiers

import (
	"os/user"
	"strconv"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/profile"
	"palyra/internal/tool/process"
)

// profileDir is where the operator's own profiles are.
func profileDir(c config.Config) string {
	return c.Paths.Profiles()
}

// homeOf is where a user's own things are.
func homeOf(uid int64) (string, error) {
	u, err := user.LookupId(strconv.FormatInt(uid, 10))
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}

// rooms are profiles as the process tool knows them.
type rooms struct{ *profile.Set }

// Resolve implements process.Profiles.
func (r rooms) Resolve(name string, ws palyra.WorkspaceRef) (process.Fittings, error) {
	p, err := r.Set.Resolve(name, ws)
	if err != nil {
		return process.Fittings{}, err
	}
	return process.Fittings{
		Name: p.Name, Mounts: p.Mounts, Files: p.Files, Seals: p.Seals, Env: p.Env, Path: p.Path, Egress: p.Egress,
		UnixSockets: p.UnixSockets, Asks: p.Asks, Notes: p.Notes,
	}, nil
}
