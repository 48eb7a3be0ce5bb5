package seatbelt

import (
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/subpath"
)

// place is what a run has on disk besides its workspace, and its way out. All paths are real ones:
// the kernel compares paths without links.
type place struct {
	root    string // the daemon's own: the run can read it and pass through
	proxy   uint16 // port on loopback; 0: no network at all
	tty     string // the run's terminal, or empty
	marks   []mark // sealed paths that exist
	pins    []string
	sources map[string]string // real paths of the mounts, by source
}

// mark is a path that was sealed before the run, relative to the workspace.
type mark struct {
	Path string `json:"path"`
	Keep bool   `json:"keep,omitempty"` // a directory that may be written in
	Mode uint32 `json:"mode"`           // as fs.FileMode has it
	Size int64  `json:"size"`
	Time int64  `json:"time"` // of its last change, in nanoseconds

	from string // its first path, when it was moved twice
}

// origin is where a moved path was found.
func (m mark) origin() string {
	if m.from != "" {
		return m.from
	}
	return m.Path
}

func (p place) home() string    { return p.root + "/home" }
func (p place) tmp() string     { return p.root + "/tmp" }
func (p place) exe() string     { return p.root + "/exe" }
func (p place) profile() string { return p.root + "/profile.sb" }

// inHome is where a path of the room's home is on this host.
func (p place) inHome(target string) string {
	return p.home() + strings.TrimPrefix(target, cell.RoomHome)
}

// real is the real path of a mount's source.
func (p place) real(m palyra.Mount) string {
	if r := p.sources[m.Source]; r != "" {
		return r
	}
	return m.Source
}

// program is the executed file: the plan's, or its copy.
func (p place) program(j sandbox.Job) string {
	if j.Sealed != nil {
		return p.exe() + "/" + path.Base(j.Path)
	}
	return j.Path
}

// links returns the symbolic links that the private home needs for mounts, from paths relative to
// the home to their targets.
func (p place) links(j sandbox.Job) map[string]string {
	out := map[string]string{}
	for _, m := range j.Mounts {
		if rel, ok := subpath.Rel(cell.RoomHome, m.Target); ok {
			out[rel] = p.real(m)
		}
	}
	return out
}

// proxyNames are the variables by which programs find a proxy.
var proxyNames = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// environment is a run's, with the actual home and tmp instead of the room's and the proxy at its
// port of loopback. door is the address of the proxy in a room.
func (p place) environment(env []string, door string) []string {
	out := make([]string, 0, len(env))
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "TMPDIR":
			value = p.tmp()
		case slices.Contains(proxyNames, name) && door != "":
			if at := strings.LastIndex(value, "@"+door); at >= 0 {
				value = value[:at] + "@" + loopback(p.proxy) + value[at+1+len(door):]
			}
		default:
			value = p.moveHome(value)
		}
		out = append(out, name+"="+value)
	}
	return out
}

// moveHome replaces the room's home in a path, or in a list of paths.
func (p place) moveHome(value string) string {
	parts := strings.Split(value, ":")
	for i, part := range parts {
		if subpath.Within(cell.RoomHome, part) {
			parts[i] = p.inHome(part)
		}
	}
	return strings.Join(parts, ":")
}

// proxyDoor finds the proxy's door: the one that the run's variables lead to. The others ask for no
// token, and so are not opened on a network that others share.
func proxyDoor(j sandbox.Job) (int, string) {
	for i, d := range j.Doors {
		at := d.Addr.String()
		for _, v := range j.Env {
			name, value, _ := strings.Cut(v, "=")
			if !d.UDP && slices.Contains(proxyNames, name) && strings.Contains(value, "@"+at) {
				return i, at
			}
		}
	}
	return -1, ""
}
