package cells

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/sandbox/refusal"
	"palyra/internal/subpath"
)

// hierarchy is the mount point of a cgroup hierarchy and our own directory in it.
type hierarchy struct{ mount, own string }

// hierarchies reads /proc/self/cgroup and /proc/self/mountinfo. The key is the v1 controller; v2 is "".
func hierarchies(cgroup, mountinfo string) map[string]hierarchy {
	paths := map[string]string{}
	for line := range strings.Lines(cgroup) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				paths[c] = f[2]
			}
		}
	}
	out := map[string]hierarchy{}
	for line := range strings.Lines(mountinfo) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		keys := []string{""}
		switch r[0] {
		case "cgroup":
			keys = strings.Split(r[2], ",")
		case "cgroup2":
		default:
			continue
		}
		for _, k := range keys {
			path, in := paths[k]
			if _, seen := out[k]; !in || seen {
				continue
			}
			out[k] = hierarchy{mount: unescape(l[4]), own: below(unescape(l[4]), unescape(l[3]), path)}
		}
	}
	return out
}

// below finds our own directory under a mount that shows the hierarchy from root on. A path outside
// of the mount cannot be seen: the mount itself is then the nearest.
func below(mount, root, path string) string {
	rel, ok := subpath.Rel(root, path)
	if !ok {
		return mount
	}
	return filepath.Join(mount, rel)
}

// unescape decodes mountinfo's octal escapes.
func unescape(s string) string {
	for _, e := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// where holds the names of directories.
type where struct {
	daemon string // leaf that a daemon moves to, one for all tiers
	runs   string // parent of the runs' groups
	inside bool   // cells are in their groups themselves
}

// discover finds usable directories by trying: it makes the named directory and writes limits in it. A refusal of
// the host is not an error but leaves a place empty; an explicit directory that cannot be used is an error.
func (k kernel) discover(mode string, w where, all map[string]hierarchy, pid int) (Cgroups, *palyra.Error) {
	switch mode {
	case CgroupOff:
		return Cgroups{}, nil
	case CgroupAuto, "":
		if c := k.unified(all[""].own, w, pid); c.Version != 0 {
			return c, nil
		}
		return k.separate(all, w), nil
	}
	c := k.unified(mode, w, pid)
	if c.Memory == "" || c.Pids == "" {
		return Cgroups{}, refusal.Unavailable("the cgroup directory that was configured gives no memory and pids limits").
			WithRemedy("name a cgroup v2 directory that is delegated to palyrad, or use auto or off")
	}
	return c, nil
}

// unified uses a v2 directory that was delegated to us: one that we may write and that has the controllers. A
// directory with processes in it cannot hand controllers on, so the daemon first moves to a leaf of it; if
// other processes are in it too, that does not help, and the daemon moves back.
func (k kernel) unified(own string, w where, pid int) Cgroups {
	if own == "" {
		return Cgroups{}
	}
	if filepath.Base(own) == w.daemon {
		own = filepath.Dir(own) // another tier has moved the daemon there
	}
	has := controllers(filepath.Join(own, "cgroup.controllers"))
	wanted := slices.DeleteFunc([]string{"memory", "pids"}, func(c string) bool { return !slices.Contains(has, c) })
	if len(wanted) == 0 {
		return Cgroups{}
	}
	leaf, parent := filepath.Join(own, w.daemon), filepath.Join(own, w.runs)
	if err := handOn(own, wanted); err != nil {
		if k.makeDir(leaf) != nil || set(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid)) != nil {
			_ = k.rmdir(leaf)
			return Cgroups{}
		}
		if err := handOn(own, wanted); err != nil {
			_ = set(filepath.Join(own, "cgroup.procs"), strconv.Itoa(pid))
			_ = k.rmdir(leaf)
			return Cgroups{}
		}
	}
	if k.makeDir(parent) != nil || handOn(parent, wanted) != nil {
		_ = k.rmdir(parent)
		return Cgroups{}
	}
	c := Cgroups{kernel: k, Version: 2, CPU: parent, Tree: parent, inside: w.inside}
	if slices.Contains(wanted, "memory") {
		c.Memory = parent
	}
	if slices.Contains(wanted, "pids") {
		c.Pids = parent
	}
	return c.tried()
}

// handOn gives controllers to the directories below dir.
func handOn(dir string, controllers []string) error {
	return set(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

func controllers(file string) []string {
	b, _ := os.ReadFile(file) // none if unreadable
	return strings.Fields(string(b))
}

// separate uses the v1 hierarchies, each where it lets us: below our own directory or, where only
// the root of the hierarchy is writable, there.
func (k kernel) separate(all map[string]hierarchy, w where) Cgroups {
	place := func(controller string) string {
		h, ok := all[controller]
		if !ok {
			return ""
		}
		for _, base := range []string{h.own, h.mount} {
			if dir := filepath.Join(base, w.runs); k.makeDir(dir) == nil {
				return dir
			}
		}
		return ""
	}
	c := Cgroups{kernel: k, Version: 1, Memory: place("memory"), Pids: place("pids"), CPU: place("cpuacct"), inside: w.inside}
	if !w.inside { // rooms end with their first process
		c.Tree = place("")
	}
	return c.tried()
}

// tried makes a group, limits it as a run would be, enters it if cells are to be born there, and
// removes it again; what fails is not promised.
func (c Cgroups) tried() Cgroups {
	try := func(only Cgroups) bool {
		only.kernel, only.Version, only.inside = c.kernel, c.Version, c.inside
		g, err := only.group("probe-" + strconv.Itoa(os.Getpid()))
		if err != nil {
			return false
		}
		err = g.limit(palyra.Limits{MemoryBytes: defaultMemory, Processes: defaultProcesses})
		if err == nil && c.inside && c.Version == 1 {
			onThread(func() { err = g.enter() })
		}
		return errors.Join(err, g.remove(leaveWithin)) == nil
	}
	clear := func(p *string, only Cgroups) {
		if *p != "" && !try(only) {
			*p = ""
		}
	}
	clear(&c.Memory, Cgroups{Memory: c.Memory})
	clear(&c.Pids, Cgroups{Pids: c.Pids})
	clear(&c.CPU, Cgroups{CPU: c.CPU})
	clear(&c.Tree, Cgroups{Tree: c.Tree})
	if c.Memory == "" && c.Pids == "" {
		c.Version = 0
	}
	return c
}

// makeDir makes a directory or finds it.
func (k kernel) makeDir(dir string) error {
	if err := k.mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cells: cgroup: %w", err)
	}
	return nil
}
