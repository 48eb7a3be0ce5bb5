// Package home says where Palyra's things live, and which sockets a client should dial. It is apart from the
// configuration because a command that must start fast needs only this of it.
//
// Promises: nobody's directory but ours is taken, and none that others could write or enter.
package home

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/address"
)

// Paths is where things live: all under Home when that is set, else in the XDG directories.
type Paths struct {
	Home        string `json:"home,omitempty"`
	Config      string `json:"config"` // the user's config.toml
	System      string `json:"system_config"`
	State       string `json:"state"` // state.db
	Keys        string `json:"keys"`
	OperatorKey string `json:"operator_key"`
	Run         string `json:"run"`
	Cache       string `json:"cache"`
	Quarantine  string `json:"quarantine"`
	Remotes     string `json:"remotes"` // daemons that this machine is paired with

	short []string // where sockets go when Run's path is too long for one
}

// Profiles is the directory of the operator's profiles.
func (p Paths) Profiles() string { return filepath.Join(filepath.Dir(p.Config), "profiles") }

// The names of the sockets in SocketDir.
const (
	AgentSocket    = "agent.sock"
	OperatorSocket = "operator.sock"
)

// maxSocketPath is the longest path a Unix socket can be bound to.
const maxSocketPath = 107

// Find finds the places from --home and the environment.
func Find(home string, env map[string]string) (Paths, error) {
	if home == "" {
		home = env["PALYRA_HOME"]
	}
	uid := os.Getuid()
	runtime := xdg(env, "XDG_RUNTIME_DIR", "")
	tmp := filepath.Join("/tmp", fmt.Sprintf("palyra-%d", uid))
	var p Paths
	if home != "" {
		abs, err := filepath.Abs(home)
		if err != nil {
			return Paths{}, err
		}
		at := func(name string) string { return filepath.Join(abs, name) }
		p = Paths{
			Home: abs, Config: at("config.toml"), State: at("state.db"), Keys: at("keys"), OperatorKey: at("operator.key"),
			Run: at("run"), Cache: at("cache"), Quarantine: at("quarantine"), Remotes: at("remotes"),
		}
	} else {
		user := env["HOME"]
		if !filepath.IsAbs(user) {
			return Paths{}, errors.New("HOME is not set to an absolute path; set it, or PALYRA_HOME")
		}
		at := func(variable, fallback, name string) string {
			return filepath.Join(xdg(env, variable, filepath.Join(user, fallback)), "palyra", name)
		}
		p = Paths{
			Config:      at("XDG_CONFIG_HOME", ".config", "config.toml"),
			Keys:        at("XDG_CONFIG_HOME", ".config", "keys"),
			OperatorKey: at("XDG_CONFIG_HOME", ".config", "operator.key"),
			Remotes:     at("XDG_CONFIG_HOME", ".config", "remotes"),
			State:       at("XDG_STATE_HOME", ".local/state", "state.db"),
			Quarantine:  at("XDG_STATE_HOME", ".local/state", "quarantine"),
			Cache:       at("XDG_CACHE_HOME", ".cache", ""),
			Run:         tmp,
		}
		if runtime != "" {
			p.Run = filepath.Join(runtime, "palyra")
		}
	}
	sum := sha256.Sum256([]byte(p.Run))
	tag := hex.EncodeToString(sum[:8])
	if runtime != "" {
		p.short = append(p.short, filepath.Join(runtime, "palyra-"+tag))
	}
	p.short = append(p.short, tmp+"-"+tag)
	return p, nil
}

// xdg returns a base directory. A relative one counts as unset, as the XDG rules demand.
func xdg(env map[string]string, variable, fallback string) string {
	if dir := env[variable]; filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return fallback
}

// SocketDir is where the daemon binds its sockets: Run, or a short directory
// when a path in Run would be too long for a socket.
func (p Paths) SocketDir() string {
	for _, dir := range append([]string{p.Run}, p.short...) {
		if len(filepath.Join(dir, OperatorSocket)) <= maxSocketPath {
			return dir
		}
	}
	return p.Run // too long as well; binding says so
}

// ErrCopied is the error of a home whose run directory is a copy of another's.
var ErrCopied = address.ErrOther

// Sockets returns the sockets that a client should dial: those the running daemon wrote down, else those it would
// bind. It refuses a directory of somebody else, who would be at the other end, and with ErrCopied a home that is a
// copy: the daemon that is written down there serves another.
func (p Paths) Sockets() (agent, operator string, err error) {
	dir, err := address.Find(p.Run, p.SocketDir())
	if err != nil {
		return "", "", err
	}
	if info, err := os.Lstat(dir); err == nil {
		if err := private(dir, info, 0o077); err != nil {
			return "", "", err
		}
	}
	return filepath.Join(dir, AgentSocket), filepath.Join(dir, OperatorSocket), nil
}

// SaveAddr writes down where the sockets are.
func (p Paths) SaveAddr() error { return address.Save(p.Run, p.SocketDir()) }

// TellWorkspaces writes down which workspaces are registered, or that it is not known.
func (p Paths) TellWorkspaces(all []string, known bool) error {
	if !known {
		return address.ForgetWorkspaces(p.Run)
	}
	return address.SaveWorkspaces(p.Run, all)
}

// Workspaces returns those that the daemon wrote down; false: it has to be asked.
func (p Paths) Workspaces() (all []string, known bool) { return address.Workspaces(p.Run) }

// Make creates the directories the daemon needs and refuses those that others
// could write or, where keys and sockets are, enter.
func (p Paths) Make() error {
	for _, dir := range []string{filepath.Dir(p.Config), filepath.Dir(p.State), filepath.Dir(p.OperatorKey)} {
		if err := makeDir(dir, 0o022); err != nil {
			return err
		}
	}
	for _, dir := range []string{p.Keys, p.Run, p.SocketDir(), p.Cache, p.Quarantine} {
		if err := makeDir(dir, 0o077); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates dir for us alone, or checks that the one there is private.
func makeDir(dir string, forbidden os.FileMode) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "uid %d cannot make the directory %s: %v", os.Getuid(), dir,
			withoutPath(err)).
			WithRemedy("make it yourself, owned by uid %d with mode 700, or choose another place with PALYRA_HOME or --home", os.Getuid())
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("home: make %s: %w", dir, err)
	}
	return private(dir, info, forbidden)
}

// private refuses a directory that is not ours or grants others a bit of forbidden.
func private(dir string, info os.FileInfo, forbidden os.FileMode) error {
	why, remedy := Foreign(info), "name a directory of your own with PALYRA_HOME or --home"
	switch {
	case why != "":
	case !info.IsDir():
		why = "is not a directory itself (a link is not followed here)"
	case info.Mode().Perm()&forbidden != 0:
		why, remedy = fmt.Sprintf("has mode %04o", info.Mode().Perm()), "make it yours alone: chmod 700 "+dir
	default:
		return nil
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonUnsafePermissions, "%s %s: others could get at what Palyra keeps there", dir, why).
		WithRemedy("%s", remedy)
}

// withoutPath drops the path from a file error, for a text that has it already.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
