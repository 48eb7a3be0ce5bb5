package sandboxtest

import (
	"fmt"
	"os"
	"path"
	"testing"

	"palyra"
)

func files(t *testing.T, b *bench) {
	b.allow(t, "create "+b.ws+"/new", "mkdir "+b.ws+"/dir", "fifo "+b.ws+"/fifo", "read "+b.probe, "list "+b.ws, "list /usr/bin",
		"read /etc/passwd")
	b.deny(t, readsOutside(t, b))
	b.deny(t, writesOutside(t, b))
	b.deny(t, attributesOutside(b))
	b.deny(t, ownRoom(t, b))
	b.deny(t, kernelFiles(t, b))
	if got, err := os.ReadFile(b.outside + "/secret"); err != nil || string(got) != b.secret {
		t.Errorf("the planted file is now %q, %v", got, err)
	}
}

func readsOutside(t *testing.T, b *bench) []denial {
	state := b.base + "/state"
	b.dir(t, state)
	readable(t, state+"/key", b.secret)
	foreign := b.base + "/foreign"
	readable(t, foreign, b.secret)  // of the suite's user; everybody may read it
	other := b.base + "/workspace2" // its name begins like the workspace's
	b.dir(t, other)
	readable(t, other+"/file", b.secret)
	return []denial{
		{"read a planted secret", "read " + b.outside + "/secret", "EACCES|ENOENT", works},
		{"list a planted directory", "list " + b.outside, "EACCES|ENOENT", works},
		{"go to a planted directory", "chdir " + b.outside, "EACCES|ENOENT", works},
		{"see what lies beside the workspace", "sees " + b.base + " outside", "EACCES|ENOENT", works},
		{"read a workspace with a longer name", "read " + other + "/file", "EACCES|ENOENT", works},
		{"read Palyra's state", "read " + state + "/key", "EACCES|ENOENT", works},
		{"read another user's open file", "read " + foreign, "EACCES|ENOENT", works},
		{"list the owner's home", "list " + b.who.home, "EACCES|ENOENT", works},
		{"list root's home", "list /root", "", worksRoot},
		{"see homes", "strange /home agent", "EACCES|ENOENT", works},
		{"see the temporary directory", "sees " + path.Dir(b.base) + " " + path.Base(b.note(t, path.Dir(b.base))), "EACCES|ENOENT", works},
		{"see shared memory", "sees /dev/shm " + path.Base(b.note(t, "/dev/shm")), "EACCES|ENOENT", works},
		{"see what runs", "strange /run -", "EACCES|ENOENT", works},
		{"list what varies", "list /var/log", "EACCES|ENOENT", works},
		{"read the passwords", "read /etc/shadow", "", worksRoot},
		{"see services' configuration", "sees /etc shadow", "EACCES|ENOENT", works},
		{"run a program outside", "exec " + b.tool, "EACCES|ENOENT", works},
		b.shown(t, denial{"list mounts of the host", "finds /proc/1/mountinfo /sys/fs/cgroup", "", worksRoot}),
		{"list the host's interfaces", "list /sys/class/net", "", works},
		{"list the host's cgroups", "list /sys/fs/cgroup", "", works},
	}
}

// note leaves a file in a directory that everybody may write to.
func (b *bench) note(t *testing.T, dir string) string {
	t.Helper()
	name := dir + "/" + b.mark + "-note"
	readable(t, name, b.secret)
	t.Cleanup(func() { _ = os.Remove(name) })
	return name
}

func writesOutside(t *testing.T, b *bench) []denial {
	b.plant(t, "victim", "x")
	b.plant(t, "short", "long text")
	return []denial{
		{"write a planted file", "openw " + b.outside + "/secret", "", works},
		{"make a file outside", "create " + b.outside + "/new", "", works},
		{"make a directory outside", "mkdir " + b.outside + "/newdir", "", works},
		{"make a fifo outside", "fifo " + b.outside + "/newfifo", "", works},
		{"remove a file outside", "remove " + b.outside + "/victim", "", works},
		{"truncate a file outside", "truncate " + b.outside + "/short", "", works},
		{"make a file in the owner's home", "create " + b.who.home + "/" + b.mark, "EACCES|ENOENT|EPERM|EROFS", works},
		{"write a program of the system", "openw /usr/bin/ldd", "EACCES|EROFS|EPERM", worksRoot},
		{"write the system's configuration", "openw /etc/passwd", "EACCES|EROFS|EPERM", worksRoot},
		{"make a program of the system", "create /usr/local/bin/" + b.mark, "EACCES|EROFS|EPERM", worksRoot},
	}
}

// ownRoom is a run's private directory: only home and tmp are its own, and those of other runs are not.
func ownRoom(t *testing.T, b *bench) []denial {
	for _, call := range []palyra.CallID{"control", "other"} {
		readable(t, b.private(t, call)+"/home/file", b.secret)
	}
	b.allow(t, "create $HOME/x", "mkdir $TMPDIR/x", "list $HOME")
	return []denial{
		{"write where its program lies", "create $HOME/../exe/x", "", works},
		{"write beside its home", "create $HOME/../x", "", works},
		{"move where its program lies", "rename $HOME/../exe $HOME/exe", "", works},
		{"move its home", "rename $HOME $HOME/../other", "", works},
		{"read the home of another run", "read " + b.base + "/private-other/home/file", "EACCES|ENOENT", works},
	}
}

// kernelFiles are those that are root's alone by their mode: a run for root that
// has no capabilities still has that uid.
func kernelFiles(t *testing.T, b *bench) []denial {
	var all []denial
	for _, file := range []string{
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/power/state",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/tasks", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
		"/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/attr/current",
	} {
		all = append(all, b.shown(t, denial{"write " + file, "openw " + file, "", worksRoot}))
	}
	return all
}

// attributesOutside are what Landlock does not know about.
func attributesOutside(b *bench) []denial {
	file := b.outside + "/secret"
	return []denial{
		{"see that a file exists", "stat " + file, "", works},
		{"change modes outside", "chmod " + file, "", works},
		{"change times outside", "utimes " + file, "", works},
		{"change attributes outside", "xattr " + file, "", unshown}, // the file system may have none
		{"watch a directory outside", "watch " + b.outside, "", works},
	}
}

// links are other names for what lies outside.
func links(t *testing.T, b *bench) {
	secret := b.outside + "/secret"
	b.file(t, "mine", "mine")
	b.file(t, "other", "mine")
	b.plant(t, "take", b.secret)
	b.plant(t, "over", b.secret)
	b.plant(t, "change", b.secret)
	check(t, os.Symlink(secret, b.ws+"/planted"))
	check(t, os.Symlink("/", b.ws+"/rootdir"))
	sub := b.ws + "/sub"
	b.dir(t, sub)
	b.deny(t, []denial{
		{"hard-link a file into the workspace", "hardlink " + secret + " " + b.ws + "/hard", "", works},
		{"make a link and follow it", "symlink " + secret + " " + b.ws + "/soft", "", works},
		{"follow a planted link", "read " + b.ws + "/planted", "", works},
		{"follow a link to the root", "read " + b.ws + "/rootdir" + secret, "", works},
		{"move a file into the workspace", "rename " + b.outside + "/take " + b.ws + "/taken", "", works},
		{"move a file over one outside", "rename " + b.ws + "/mine " + b.outside + "/over", "", works},
		{"exchange a file with one outside", "exchange " + b.ws + "/other " + b.outside + "/change", "", works},
		{"climb from the workspace", "readat " + b.ws + " ../outside/secret", "", works},
		{"climb from below the workspace", "readat " + sub + " ../../outside/secret", "", works},
		{"climb to the root", "dotdot " + b.ws + " " + secret, "", works},
		{"go through an own descriptor", "fdlink " + b.ws + " ../outside/secret", "", works},
		{"hold a file without reading and open it again", "opath " + secret, "", works},
		{"go through an own root", "read /proc/self/root" + secret, "", works},
		{"go through an own directory", "read /proc/self/cwd/../outside/secret", "", works},
		{"go through a thread", "read /proc/thread-self/root" + secret, "", works},
		{"change a name while it is read", "swap " + secret + " " + b.ws + "/swapped", "", works},
	})
	b.allow(t, "rename "+b.probe+" "+b.ws+"/sub/moved", "rename "+b.ws+"/sub/moved "+b.probe, "hardlink "+b.probe+" "+b.ws+"/sub/hard")
}

func devices(t *testing.T, b *bench) {
	b.allow(t, "device /dev/null", "device /dev/zero", "device /dev/full", "random", "clock")
	all := []denial{{"make a device node", "mknod " + b.ws + "/node", "", worksRoot}}
	for _, dev := range []string{
		"mem", "kmsg", "ptmx", "fuse", "kvm", "net/tun", "loop-control", "vda", "sda", "hpet", "uinput",
		"vhost-net", "snapshot",
	} {
		node := "/dev/" + dev
		if dev == "ptmx" && b.has(t, ownFiles) {
			continue // its terminals are its own: see the runner's class
		}
		v := b.outsideAs(t, self(), []string{"device " + node})[0]
		if v.Errno != "" {
			t.Logf("UNPROVEN HERE: %s cannot be opened outside either: %s", node, v.Errno)
			continue
		}
		all = append(all, denial{fmt.Sprintf("open %s", node), "device " + node, "", differs})
	}
	b.deny(t, all)
}
