package sandboxtest

import (
	"fmt"
	"os"
	"testing"

	"palyra"
)

func files(t *testing.T, b *bench) {
	b.allow(t, "create "+b.ws+"/new", "mkdir "+b.ws+"/dir", "fifo "+b.ws+"/fifo", "read "+b.probe, "list "+b.ws, "list /usr/bin", "read /etc/passwd")
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
		{"list the workspace's parent", "list " + b.base, "EACCES|ENOENT", works},
		{"read a workspace with a longer name", "read " + other + "/file", "EACCES|ENOENT", works},
		{"read Palyra's state", "read " + state + "/key", "EACCES|ENOENT", works},
		{"read another user's open file", "read " + foreign, "EACCES|ENOENT", works},
		{"list the owner's home", "list " + b.who.home, "EACCES|ENOENT", works},
		{"list root's home", "list /root", "", worksRoot},
		{"list homes", "list /home", "EACCES|ENOENT", works},
		{"list the temporary directory", "list /tmp", "EACCES|ENOENT", works},
		{"list what runs", "list /run", "EACCES|ENOENT", works},
		{"list what varies", "list /var/log", "EACCES|ENOENT", works},
		{"read the passwords", "read /etc/shadow", "", worksRoot},
		{"list services' configuration", "list /etc", "EACCES|ENOENT", works},
		{"run a program outside", "exec " + b.tool, "EACCES|ENOENT", works},
		{"list mounts of the host", "read /proc/1/mountinfo", "", worksRoot},
	}
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
		{"make a file in the shared temporary directory", "create /tmp/" + b.mark, "EACCES|ENOENT|EPERM", works},
		{"make a file in shared memory", "create /dev/shm/" + b.mark, "EACCES|ENOENT|EPERM", works},
		{"make a file in the owner's home", "create " + b.who.home + "/" + b.mark, "EACCES|ENOENT|EPERM|EROFS", works},
		{"write a program of the system", "openw /usr/bin/ldd", "EACCES|EROFS|EPERM", worksRoot},
		{"write the system's configuration", "openw /etc/passwd", "EACCES|EROFS|EPERM", worksRoot},
		{"make a program of the system", "create /usr/local/bin/" + b.mark, "EACCES|EROFS|EPERM", worksRoot},
	}
}

// ownRoom is a run's private directory: only home and tmp are its own, and those
// of other runs are not.
func ownRoom(t *testing.T, b *bench) []denial {
	for _, call := range []palyra.ID{"control", "other"} {
		readable(t, b.private(t, call)+"/home/file", b.secret)
	}
	b.allow(t, "create $HOME/x", "mkdir $HOME/../tmp/x", "list $HOME/../exe")
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
	for _, path := range []string{
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/power/state",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/tasks", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
		"/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/attr/current",
	} {
		d := denial{"write " + path, "openw " + path, "", worksRoot}
		if v := b.outsideAs(t, self(), []string{d.op})[0]; v.Errno != "" {
			d.control = unshown
			if os.Geteuid() == 0 {
				t.Logf("UNPROVEN HERE: %s cannot be written outside either: %s", path, v.Errno)
			}
		}
		all = append(all, d)
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
	for _, dev := range []string{"mem", "kmsg", "ptmx", "fuse", "kvm", "net/tun", "loop-control", "vda", "sda", "hpet", "uinput", "vhost-net", "snapshot"} {
		path := "/dev/" + dev
		v := b.outsideAs(t, self(), []string{"device " + path})[0]
		if v.Errno != "" {
			t.Logf("UNPROVEN HERE: %s cannot be opened outside either: %s", path, v.Errno)
			continue
		}
		all = append(all, denial{fmt.Sprintf("open %s", path), "device " + path, "", differs})
	}
	b.deny(t, all)
}
