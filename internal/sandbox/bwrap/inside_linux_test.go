package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/sandbox/celltest"
)

// What is not in a room cannot be read, whatever a program does. The lists are
// complete: something new in a room is a decision.
func TestRoomShowsNothingElse(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		secret := filepath.Join(openDir(t, 0o755), "secret")
		celltest.MustWrite(t, secret, "secret\n", 0o644)
		celltest.MustWrite(t, filepath.Join(filepath.Dir(r.Workspace), "beside"), "secret\n", 0o644)
		out := says(t, r, `
			echo top: $(ls -A /)
			echo home: $(ls -A /home) $(ls -A /home/agent)
			echo run: $(ls -A /run)
			echo tmp: $(find /tmp -mindepth 1 | sort)
			echo blocks: $(find / -xdev -exec test -b {} \; -print; find /dev -exec test -b {} \; -print)
			echo chars: $(find /dev ! -type l -exec test -c {} \; -print | sort)
			echo sockets: $(find / -type s -not -path '/proc/*' 2>/dev/null)
			echo missing: $(cat `+quote(secret)+` `+quote(filepath.Dir(r.Workspace))+`/beside /etc/shadow /root/.ssh/id_rsa 2>/dev/null)
			echo processes: $(ls /proc | grep -c '^[0-9]')`)
		top := "bin dev etc home"
		for _, d := range []string{"/lib", "/lib32", "/lib64", "/libx32", "/opt"} {
			if _, err := os.Stat(d); err == nil {
				top += " " + d[1:]
			}
		}
		for name, want := range map[string]string{
			"top":     top + " proc run sbin tmp usr",
			"home":    "agent",
			"run":     "",
			"tmp":     parents(r.Workspace),
			"blocks":  "",
			"chars":   "/dev/full /dev/null /dev/random /dev/tty /dev/urandom /dev/zero",
			"sockets": "", "missing": "",
		} {
			if got := line(out, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// parents lists path and what is above it, as find sees it in /tmp.
func parents(path string) string {
	if path == "/tmp" {
		return ""
	}
	return strings.TrimSpace(parents(filepath.Dir(path)) + " " + path)
}

// line returns what a script said about name.
func line(out, name string) string {
	for l := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(l, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "(nothing was said)"
}

func TestRoomEtc(t *testing.T) {
	allowed := []string{"/etc"}
	for _, p := range slices.Concat(systemEtc, generatedEtc) {
		allowed = append(allowed, strings.TrimSuffix(p, "*"))
	}
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		out := says(t, newRoom(t, s), `find /etc -maxdepth 3; echo; find /etc ! -readable`)
		all, unreadable, _ := strings.Cut(out, "\n\n")
		for path := range strings.Lines(all) {
			path = strings.TrimSpace(path)
			if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(path, a) || strings.HasPrefix(a, path+"/") }) {
				t.Errorf("%s is in the room", path)
			}
		}
		for _, p := range strings.Fields(`shadow gshadow sudoers ssh ssl/private pki/tls/private gitconfig npmrc pip.conf wgetrc netrc machine-id
			krb5.keytab environment profile.d cron.d systemd NetworkManager ld.so.preload security docker apt fstab`) {
			if strings.Contains(all, "/etc/"+p+"\n") {
				t.Errorf("/etc/%s is in the room", p)
			}
		}
		if unreadable != "" {
			t.Errorf("not readable: %s", unreadable)
		}
	})
}

func TestRoomIdentity(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		uid, gid := r.Inside()
		out := says(t, r, `
			echo ids: $(id -u) $(id -g) $(id -G) $(id -un) $(id -gn)
			echo map: $(cat /proc/self/uid_map) $(cat /proc/self/gid_map)
			echo setgroups: $(cat /proc/self/setgroups)
			echo home: $(getent passwd agent | cut -d: -f6) $(stat -c '%u %a' /home/agent)
			echo owner: $(stat -c '%U' .)
			echo name: $(hostname) $(cat /etc/hostname) $(getent hosts palyra | awk '{print $1}')
			echo nobody: $(getent passwd 65534 | cut -d: -f1,3)
			echo init: $(cat /proc/1/comm) $$
			echo environ: $(tr '\0' ' ' </proc/1/environ)
			echo cwd: $(pwd)
			for n in user pid mnt ipc uts net; do echo $n: $(readlink /proc/self/ns/$n); done`)
		other := "nobody:65534"
		if uid == Nobody {
			other = "agent:65534"
		}
		for name, want := range map[string]string{
			"ids":       fmt.Sprintf("%d %d %d agent agent", uid, gid, gid),
			"setgroups": "deny",
			"home":      fmt.Sprintf("/home/agent %d 700", uid),
			"name":      "palyra palyra 127.0.0.1",
			"nobody":    other,
			"init":      "sh 1",
			"environ":   "PWD=/",
			"cwd":       "/",
		} {
			if got := line(out, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for _, ns := range []string{"user", "pid", "mnt", "ipc", "uts", "net"} {
			if outside, err := os.Readlink("/proc/self/ns/" + ns); err != nil || line(out, ns) == outside ||
				!strings.HasPrefix(line(out, ns), ns+":[") {
				t.Errorf("the %s namespace is %s inside and %s outside, %v", ns, line(out, ns), outside, err)
			}
		}
	})
}

// A descriptor of a directory outside would lead out of the room.
func TestRoomDescriptors(t *testing.T) {
	inherited := map[string]bool{} // from whoever started the tests
	for _, n := range inheritedFDs(t) {
		inherited[n] = true
	}
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		var left []string
		for _, n := range strings.Fields(says(t, r, `ls /proc/1/fd`)) {
			if !inherited[n] {
				left = append(left, n)
			}
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != "0 1 2 3 4" {
			t.Errorf("descriptors of the cell: %s", got)
		}
	})
}

// inheritedFDs lists the descriptors of this process that its children get.
func inheritedFDs(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		if err == nil && len(e.Name()) > 1 && !strings.Contains(string(info), "flags:\t02") && !strings.Contains(string(info), "flags:\t012") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestRoomWriting(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		r := newRoom(t, s)
		out := says(t, r, `
			w() { (: >"$1/.w") 2>/dev/null && rm "$1/.w" && printf '%s ' "$1"; return 0; }
			echo dirs: $(for d in / /bin /usr /usr/bin /usr/local /opt /etc /etc/ssl /etc/ssl/certs /home /home/agent /dev /dev/pts /dev/shm /proc /proc/self /run /tmp `+quote(r.Workspace)+`; do w $d; done)
			echo files: $(for f in /etc/passwd /etc/hosts /etc/resolv.conf /etc/ld.so.cache /usr/bin/env; do
				if [ -w $f ]; then echo $f; fi; done)
			echo sizes: $(df --output=size -B1 /tmp /home/agent /dev/shm /run | tail -n +2)
			echo full: $(head -c 5000000 /dev/zero 2>/dev/null >/tmp/full || stat -c %s /tmp/full)
			echo exec: $(rm /tmp/full; cp /bin/true /tmp/p; /tmp/p && echo yes)
			echo devices: $(mknod /tmp/null c 1 3 2>/dev/null && echo yes)
			echo mounts: $(grep -v nosuid /proc/self/mounts) $(grep ' /tmp\|agent' /proc/self/mounts | grep -v nodev)`)
		for name, want := range map[string]string{
			"dirs":    "/home/agent /dev/shm /run /tmp " + r.Workspace,
			"files":   "",
			"sizes":   "4194304 4194304 4194304 8388608",
			"full":    "4194304",
			"exec":    "yes",
			"devices": "", "mounts": "",
		} {
			if got := line(out, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if list, err := os.ReadDir(r.Workspace); err != nil || len(list) != 0 {
			t.Errorf("left in the workspace: %v, %v", list, err)
		}
	})
}

// The room's builder sees no network but its own, and that is not even up: the
// cell makes another.
func TestRoomNetwork(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		out := says(t, newRoom(t, s), `
			echo devices: $(tail -n +3 /proc/net/dev | cut -d: -f1)
			echo routes: $(tail -n +2 /proc/net/route)
			echo unix: $(tail -n +2 /proc/net/unix)
			echo dns: $(head -n 1 /etc/resolv.conf)`)
		for name, want := range map[string]string{"devices": "lo", "routes": "", "unix": "", "dns": "nameserver 198.18.0.1"} {
			if got := line(out, name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// The cell lays something empty over what hidden lists, and makes what is unsettable
// read-only; here the shell does. What
// is left of /proc beside processes cannot be written, not even by who is root
// outside.
func TestRoomHidden(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		out := says(t, newRoom(t, s), `exec unshare -m sh -ec '
			for p in `+strings.Join(HiddenProc(), " ")+`; do
				if [ -d $p ]; then mount -t tmpfs -o ro none $p; elif [ -e $p ]; then mount --bind /dev/null $p; fi
			done
			for p in `+strings.Join(ReadOnlyProc(), " ")+`; do mount --bind $p $p; mount -o remount,bind,ro $p; done
			exec setpriv --inh-caps -all --ambient-caps -all --bounding-set -all --no-new-privs sh -ec "
				echo caps: \$(grep CapEff /proc/self/status)
				echo writable: \$(find /proc -path \"/proc/[0-9]*\" -prune -o -writable -exec test -f {} \\; -print)
				echo content: \$(cat `+strings.Join(HiddenProc(), " ")+` 2>/dev/null | wc -c)
				echo cpus: \$(grep -c ^processor /proc/cpuinfo) \$(nproc)
				echo needed: \$(cat /proc/meminfo /proc/stat /proc/uptime /proc/loadavg /proc/version /proc/filesystems /proc/mounts | wc -l)
			"'`)
		if got := line(out, "caps"); got != "CapEff: 0000000000000000" {
			t.Errorf("caps: %q", got)
		}
		for _, name := range []string{"writable"} {
			if got := line(out, name); got != "" {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := line(out, "content"); got != "0" {
			t.Errorf("content: %q", got)
		}
		if got := line(out, "needed"); len(got) < 2 {
			t.Errorf("needed: %q", got)
		}
	})
}
