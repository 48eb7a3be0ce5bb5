package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"palyra"
)

// hierarchy is where a cgroup hierarchy is mounted and where in it we are.
type hierarchy struct{ mount, own string }

// hierarchies reads /proc/self/cgroup and /proc/self/mountinfo. The key is the
// v1 controller; v2 is "".
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

// below finds our own directory under a mount that shows the hierarchy from root
// on. A path outside of what is mounted cannot be seen: the mount itself is then
// the nearest.
func below(mount, root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return mount
	}
	return filepath.Join(mount, rel)
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	for _, e := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// discover finds what can be used, by trying it: the directory name is made and
// limits are written in it. Refusals of the host are not errors, they leave a
// place empty; an explicit directory that cannot be used is.
func (k kernel) discover(mode, name string, all map[string]hierarchy, pid int) (cgroups, *palyra.Error) {
	switch mode {
	case CgroupOff:
		return cgroups{}, nil
	case CgroupAuto, "":
		if c := k.unified(all[""].own, name, pid); c.version != 0 {
			return c, nil
		}
		return k.separate(all, name), nil
	}
	c := k.unified(mode, name, pid)
	if c.memory == "" || c.pids == "" {
		return cgroups{}, unavailable("the cgroup directory that was configured gives no memory and pids limits").
			WithRemedy("name a cgroup v2 directory that is delegated to palyrad, or use auto or off")
	}
	return c, nil
}

// unified uses a v2 directory that was delegated to us: one that we may write
// and that has the controllers. A directory with processes in it cannot hand
// controllers on, so the daemon first moves to a leaf of it; if somebody else is
// in it too, that does not help, and the daemon moves back.
func (k kernel) unified(own, name string, pid int) cgroups {
	if own == "" {
		return cgroups{}
	}
	has := controllers(filepath.Join(own, "cgroup.controllers"))
	wanted := slices.DeleteFunc([]string{"memory", "pids"}, func(c string) bool { return !slices.Contains(has, c) })
	if len(wanted) == 0 {
		return cgroups{}
	}
	leaf, parent := filepath.Join(own, name+"-daemon"), filepath.Join(own, name)
	if err := handOn(own, wanted); err != nil {
		if k.makeDir(leaf) != nil || set(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(pid)) != nil {
			_ = k.rmdir(leaf)
			return cgroups{}
		}
		if err := handOn(own, wanted); err != nil {
			_ = set(filepath.Join(own, "cgroup.procs"), strconv.Itoa(pid))
			_ = k.rmdir(leaf)
			return cgroups{}
		}
	}
	if k.makeDir(parent) != nil || handOn(parent, wanted) != nil {
		_ = k.rmdir(parent)
		return cgroups{}
	}
	c := cgroups{kernel: k, version: 2, cpu: parent, tree: parent}
	if slices.Contains(wanted, "memory") {
		c.memory = parent
	}
	if slices.Contains(wanted, "pids") {
		c.pids = parent
	}
	return c.tried()
}

// handOn gives controllers to the directories below dir.
func handOn(dir string, controllers []string) error {
	return set(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

func controllers(file string) []string {
	b, _ := os.ReadFile(file) // none
	return strings.Fields(string(b))
}

// separate uses the v1 hierarchies, each where it lets us: below our own
// directory or, where only root of the hierarchy is writable, there.
func (k kernel) separate(all map[string]hierarchy, name string) cgroups {
	place := func(controller string) string {
		h, ok := all[controller]
		if !ok {
			return ""
		}
		for _, base := range []string{h.own, h.mount} {
			if dir := filepath.Join(base, name); k.makeDir(dir) == nil {
				return dir
			}
		}
		return ""
	}
	c := cgroups{kernel: k, version: 1, memory: place("memory"), pids: place("pids"), cpu: place("cpuacct"), tree: place("")}
	return c.tried()
}

// tried makes a group, limits it as a run would be and takes it away again; what
// does not work is not promised.
func (c cgroups) tried() cgroups {
	try := func(only cgroups) bool {
		only.kernel, only.version = c.kernel, c.version
		g, err := only.group("probe-" + strconv.Itoa(os.Getpid()))
		if err != nil {
			return false
		}
		err = g.limit(palyra.Limits{MemoryBytes: defaultMemory, Processes: defaultProcesses})
		return errors.Join(err, g.remove(0)) == nil
	}
	clear := func(p *string, only cgroups) {
		if *p != "" && !try(only) {
			*p = ""
		}
	}
	clear(&c.memory, cgroups{memory: c.memory})
	clear(&c.pids, cgroups{pids: c.pids})
	clear(&c.cpu, cgroups{cpu: c.cpu})
	clear(&c.tree, cgroups{tree: c.tree})
	if c.memory == "" && c.pids == "" {
		c.version = 0
	}
	return c
}

// makeDir makes a directory or finds it.
func (k kernel) makeDir(dir string) error {
	if err := k.mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("confine: cgroup: %w", err)
	}
	return nil
}
