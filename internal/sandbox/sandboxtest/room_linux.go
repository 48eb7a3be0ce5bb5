package sandboxtest

import (
	"os"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/sandbox"
)

// room: what is not the workspace is the run's own, read-only, or not there.
func room(t *testing.T, b *bench) {
	shared := []denial{
		{"make a file in the shared temporary directory", "create " + os.TempDir() + "/" + b.mark, "EACCES|ENOENT|EPERM", works},
		{"make a file in shared memory", "create /dev/shm/" + b.mark, "EACCES|ENOENT|EPERM", works},
	}
	if b.lacks(t, ownFiles) {
		b.deny(t, shared)
		return
	}
	ownPlaces(t, b)
	b.deny(t, readOnlySystem(b))
	b.deny(t, maskedKernel(t, b))
	b.deny(t, quietConfiguration(t, b))
	ownName(t, b)
	mounts(t, b)
	roomFiles(t, b)
	badRooms(t, b)
}

// ownPlaces are written to, and neither the host nor the next run sees it.
func ownPlaces(t *testing.T, b *bench) {
	places := []string{"/tmp", "/dev/shm", "$HOME"}
	var leave, sees []string
	for _, p := range places {
		leave = append(leave, "leave "+p+"/"+b.mark+" "+b.secret)
		sees = append(sees, "sees "+p+" "+b.mark)
	}
	b.allow(t, append(leave, sees...)...)
	for i, v := range b.inside(t, sees) {
		if v.Errno == "" {
			t.Errorf("%s: what one run left the next one sees", places[i])
		}
	}
	for _, p := range []string{"/tmp", "/dev/shm", "/home/agent", b.who.home} {
		if os.Remove(p+"/"+b.mark) == nil {
			t.Errorf("%s: the host sees what a run left", p)
		}
	}
}

func readOnlySystem(b *bench) []denial {
	all := []denial{
		{"write a program of the system in a room", "openw /usr/bin/ldd", "EROFS|EACCES|EPERM", worksRoot},
		{"move the room's own home", "rename /home/agent /home/other", "", unshown}, // the host need not have it
		{"lay a directory over another", "bind " + b.ws + " /usr", "EPERM", unshown},
	}
	for _, dir := range []string{"/", "/usr", "/etc", "/dev", "/home", "/usr/local/bin", "/bin", "/lib"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		all = append(all, denial{"make a file in " + dir, "create " + dir + "/" + b.mark, "EROFS|EACCES|EPERM|ENOENT", worksRoot})
	}
	return all
}

// maskedKernel are files of /proc that tell of the host or do something to it.
func maskedKernel(t *testing.T, b *bench) []denial {
	var all []denial
	for _, name := range strings.Fields("kcore keys key-users timer_list kallsyms kmsg sched_debug latency_stats slabinfo " +
		"vmallocinfo modules diskstats partitions swaps bus/pci/devices") {
		all = append(all, b.shown(t, denial{"read /proc/" + name + " in a room", "content /proc/" + name, "", worksRoot}))
	}
	for _, name := range strings.Fields("sysrq-trigger sys/kernel/hostname sys/kernel/core_pattern sys/vm/drop_caches " +
		"sys/net/ipv4/ip_forward sys/user/max_user_namespaces sys/kernel/ns_last_pid") {
		all = append(all, denial{"write /proc/" + name + " in a room", "openw /proc/" + name, "", unshown}) // the class files has the controls
	}
	return append(all,
		b.shown(t, denial{"look into the keeper's root", "list /proc/1/root", "", worksRoot}),
		b.shown(t, denial{"look at the keeper's descriptors", "target /proc/1/fd/1", "", worksRoot}),
		b.shown(t, denial{"look at the keeper's program", "target /proc/1/exe", "", worksRoot}),
		b.shown(t, denial{"read the keeper's environment", "content /proc/1/environ", "", worksRoot}),
		b.shown(t, denial{"open the keeper's memory", "procmem 1", "", worksRoot}),
		denial{"open the keeper's network", "read /proc/1/ns/net", "", unshown},
		denial{"run the keeper's program", "exec /proc/1/exe", "", unshown},
	)
}

// quietConfiguration: of the system's configuration only what programs need.
func quietConfiguration(t *testing.T, b *bench) []denial {
	var all []denial
	for _, name := range strings.Fields("shadow gshadow shadow- sudoers sudoers.d ssh cron.d crontab pam.d security machine-id fstab " +
		"environment profile.d systemd ssl/private NetworkManager docker postgresql") {
		dir, base := "/etc", name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			dir, base = "/etc/"+name[:i], name[i+1:]
		}
		if _, err := os.Lstat(dir + "/" + base); err != nil {
			continue // the host has none: nothing to see
		}
		all = append(all, denial{"see /etc/" + name, "sees " + dir + " " + base, "ENOENT|EACCES", works})
	}
	if len(all) == 0 {
		t.Log("UNPROVEN HERE: the host's /etc has nothing to hide")
	}
	return all
}

// ownName: the run has a name and a machine of its own.
func ownName(t *testing.T, b *bench) {
	e := b.works(t, order{argv: []string{
		"sh", "-c",
		`id -un; echo ~; uname -n; wc -l < /etc/passwd; echo /proc/[0-9]* | wc -w; tr '\0' ' ' < /proc/1/cmdline`,
	}})
	lines := strings.Split(e.stdout, "\n")
	host, err := os.Hostname()
	check(t, err)
	if len(lines) < 5 || lines[0] != "agent" || lines[1] != "/home/agent" || lines[2] == host {
		t.Errorf("name, home, host: %q", lines)
		return
	}
	if len(lines[3]) > 1 || len(lines[4]) > 1 {
		t.Errorf("it sees %s users and %s processes", lines[3], lines[4])
	}
}

// mounts show what a job says, where it says, and no more of it than it says.
func mounts(t *testing.T, b *bench) {
	tools, cache := b.base+"/tools", b.base+"/cache"
	b.dir(t, tools)
	b.dir(t, cache)
	copyFile(t, b.tool, tools+"/tool", 0o755)
	b.own(t, tools+"/tool")
	readable(t, tools+"/file", b.secret)
	check(t, os.Symlink(b.outside+"/secret", tools+"/link"))
	o := order{change: func(j *sandbox.Job) {
		j.Mounts = []palyra.Mount{
			{Source: tools, Target: "/home/agent/.tools"},
			{Source: cache, Target: "/home/agent/.cache/tool", Writable: true},
		}
	}}
	got := b.allowAs(t, o, "read $HOME/.tools/file", "exec $HOME/.tools/tool", "leave $HOME/.cache/tool/made x", "create $HOME/.cache/other",
		"list $HOME/.tools")
	if got[0].Got != b.secret || !strings.Contains(got[4].Got, "link") {
		t.Errorf("a mount shows %q", got)
	}
	if st := owner(t, cache+"/made"); st != b.who.uid {
		t.Errorf("a file in a mount is of %d, want %d", st, b.who.uid)
	}
	b.denyAs(t, o, []denial{
		{"write what is mounted to read", "openw $HOME/.tools/file", "EROFS|EACCES", unshown},
		{"make a file in what is mounted to read", "create $HOME/.tools/x", "EROFS|EACCES", unshown},
		{"move what is mounted", "rename $HOME/.tools $HOME/.moved", "", unshown},
		{"change times of what is mounted to read", "utimes $HOME/.tools/file", "EROFS|EACCES|EPERM", unshown},
		{"follow a link out of what is mounted", "read $HOME/.tools/link", "", unshown},
		{"climb out of what is mounted", "read $HOME/.tools/../../../" + b.outside + "/secret", "", unshown},
		{"read a mount by the host's name", "read " + tools + "/file", "ENOENT|EACCES", works},
	})
	for i, v := range b.inside(t, []string{"list $HOME/.tools", "list $HOME/.cache/tool"}) {
		if v.Errno == "" {
			t.Errorf("mount %d is there in a run that did not ask for it", i)
		}
	}
}

func roomFiles(t *testing.T, b *bench) {
	o := order{change: func(j *sandbox.Job) {
		j.Files = []palyra.RoomFile{{Target: "/home/agent/.config/tool/rc", Text: "text=" + b.secret}}
	}}
	if got := b.allowAs(t, o, "read $HOME/.config/tool/rc", "create $HOME/.config/tool/other")[0].Got; got != "text="+b.secret {
		t.Errorf("a file of the room holds %q", got)
	}
	b.denyAs(t, o, []denial{
		{"write a file of the room", "openw $HOME/.config/tool/rc", "EROFS|EACCES|EPERM", unshown},
		{"remove a file of the room", "remove $HOME/.config/tool/rc", "", unshown},
	})
}

// badRooms are refused before anything runs.
func badRooms(t *testing.T, b *bench) {
	link := b.base + "/linked"
	check(t, os.Symlink(b.ws, link))
	for name, change := range map[string]func(*sandbox.Job){
		"a mount in the workspace":      func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: b.ws + "/in"}} },
		"a mount over the workspace":    func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: b.ws}} },
		"a mount above the workspace":   func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: b.base}} },
		"a mount over everything":       func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: "/"}} },
		"a mount over /proc":            func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: "/proc"}} },
		"a mount to a relative path":    func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: "home"}} },
		"a mount to a path that climbs": func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: b.outside, Target: "/home/agent/../x"}} },
		"a mount of nothing": func(j *sandbox.Job) {
			j.Mounts = []palyra.Mount{{Source: b.base + "/nothing", Target: "/home/agent/x"}}
		},
		"a mount of everything":   func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/", Target: "/home/agent/x"}} },
		"a mount of the kernel's": func(j *sandbox.Job) { j.Mounts = []palyra.Mount{{Source: "/proc", Target: "/home/agent/x"}} },
		"a second way into the workspace": func(j *sandbox.Job) {
			j.Mounts = []palyra.Mount{{Source: b.ws, Target: "/home/agent/x", Writable: true}}
		},
		"a second way into the workspace by a link": func(j *sandbox.Job) {
			j.Mounts = []palyra.Mount{{Source: link, Target: "/home/agent/x", Writable: true}}
		},
		"a workspace that is a link":     func(j *sandbox.Job) { j.Workspace, j.Cwd = link, link },
		"a workspace of somebody else":   func(j *sandbox.Job) { j.Workspace, j.Cwd = "/usr", "/usr" },
		"a working directory elsewhere":  func(j *sandbox.Job) { j.Cwd = b.outside },
		"a file of the room in the work": func(j *sandbox.Job) { j.Files = []palyra.RoomFile{{Target: b.ws + "/rc", Text: "x"}} },
		"a file of the room that climbs": func(j *sandbox.Job) { j.Files = []palyra.RoomFile{{Target: "/home/agent/../../etc/rc", Text: "x"}} },
	} {
		j, _, _ := b.job(t, order{argv: []string{b.probe, "exit", "0"}, change: change})
		if p, err := b.backend.Start(t.Context(), j); err == nil {
			_, _ = p.Wait()
			t.Errorf("%s: it was started", name)
		}
	}
	if _, err := os.Lstat(b.ws + "/in"); err == nil {
		t.Error("a mount point was left in the workspace")
	}
}
