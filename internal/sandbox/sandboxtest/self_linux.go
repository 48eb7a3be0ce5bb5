package sandboxtest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// identity: the program is the workspace's owner and nobody else, with nothing above what the owner has.
func identity(t *testing.T, b *bench) {
	type identified struct {
		UID, GID   [3]int
		Groups     []int
		Caps       string
		NoNewPrivs bool
		Seccomp    int
		Session    bool
	}
	var w identified
	check(t, json.Unmarshal([]byte(b.allow(t, "identity")[0].Got), &w))
	who := b.who
	if who.uid == 0 && b.has(t, ownFiles) { // where it can be told that it is somebody else, it is
		who.uid, who.gid = w.UID[0], w.GID[0]
		if who.uid == 0 || who.gid == 0 {
			t.Errorf("it is root inside: uid %v, gid %v", w.UID, w.GID)
		}
	}
	uid, gid := [3]int{who.uid, who.uid, who.uid}, [3]int{who.gid, who.gid, who.gid}
	if w.UID != uid || w.GID != gid {
		t.Errorf("uid %v, gid %v, want %v and %v", w.UID, w.GID, uid, gid)
	}
	if os.Geteuid() == 0 && len(w.Groups) > 0 {
		t.Errorf("groups of the daemon: %v", w.Groups)
	}
	if w.Caps != "" && (os.Geteuid() == 0 || b.has(t, ownFiles)) {
		t.Errorf("capabilities: %s", clip(w.Caps))
	}
	if strings.Trim(w.Caps, "b0123456789 ") != "" { // a user's bounding set is the host's and worth nothing under no_new_privs
		t.Errorf("capabilities: %s", clip(w.Caps))
	}
	if !w.NoNewPrivs || w.Seccomp != 2 || !w.Session {
		t.Errorf("no_new_privs %v, seccomp %d, own session %v", w.NoNewPrivs, w.Seccomp, w.Session)
	}
	var c identified
	check(t, json.Unmarshal([]byte(b.outsideAs(t, self(), []string{"identity"})[0].Got), &c))
	if c.Seccomp == 2 && c.NoNewPrivs {
		t.Log("UNPROVEN HERE: the suite itself runs confined")
	}
	if os.Geteuid() == 0 && c.Caps == "" {
		t.Error("control: root has no capabilities outside")
	}
	if b.who.uid != 0 {
		b.deny(t, []denial{{"become root", "setuid 0", "", worksRoot}})
	}
}

// descriptors: only stdin, stdout and stderr, whatever the daemon has open and forgot to mark.
func descriptors(t *testing.T, b *bench) {
	open := func(path string, flags int) {
		fd, err := unix.Open(path, flags, 0) // not close-on-exec, on purpose
		check(t, err)
		high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 300)
		check(t, err)
		t.Cleanup(func() { _, _ = unix.Close(fd), unix.Close(high) })
	}
	open(b.outside+"/secret", unix.O_RDONLY)
	open(b.outside, unix.O_PATH|unix.O_DIRECTORY)
	open("/", unix.O_RDONLY|unix.O_DIRECTORY)
	var p [2]int
	check(t, unix.Pipe(p[:]))
	t.Cleanup(func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) })
	if got := b.allow(t, "fds")[0].Got; got != "" {
		t.Errorf("descriptors inside: %s", got)
	}
	if got := strings.Fields(b.outsideAs(t, b.who, []string{"fds"})[0].Got); len(got) < 8 {
		t.Errorf("control: outside only %v are inherited", got)
	}
}

// environment: exactly what the job says.
func environment(t *testing.T, b *bench) {
	check(t, os.Setenv("PALYRA_SUITE_SECRET", b.secret))
	t.Cleanup(func() { _ = os.Unsetenv("PALYRA_SUITE_SECRET") })
	e := b.works(t, order{argv: []string{b.probe, "try", "environ"}, env: []string{"GIVEN=x y"}})
	names := []string{}
	for _, line := range strings.Split(verdicts(t, e.stdout, 1)[0].Got, "\n") {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"GIVEN", "HOME", "LANG", "PATH", "TMPDIR"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	if strings.Contains(e.stdout, b.secret) {
		t.Error("the daemon's environment came through")
	}
	e = b.works(t, order{argv: []string{b.probe, "try", "proc", "self", "environ"}})
	if strings.Contains(e.stdout, b.secret) {
		t.Error("the daemon's environment stands in /proc")
	}
	b.neighbour(t)
	b.deny(t, []denial{{"find a secret in any environment", "scan SECRET=" + b.secret, "", works}})
}

// setuidPrograms: nothing gives privileges, whoever put it there.
func setuidPrograms(t *testing.T, b *bench) {
	b.deny(t, []denial{{"make a program set-user-id", "chmodsuid " + b.probe, "", works}})
	if os.Geteuid() != 0 || b.who.uid == 0 {
		return // only root can plant one, and for root it would change nothing
	}
	set := b.ws + "/setuid"
	copyFile(t, b.tool, set, 0o755)
	check(t, os.Chmod(set, 0o755|os.ModeSetuid|os.ModeSetgid))
	e := b.works(t, order{argv: []string{set, "try", "identity"}})
	if got := verdicts(t, e.stdout, 1)[0].Got; strings.Contains(got, `"UID":[0`) || strings.Contains(got, `,0,0]`) {
		t.Errorf("inside it is %s", got)
	}
	outside := *b
	outside.tool = set
	if got := outside.outsideAs(t, b.who, []string{"identity"})[0].Got; !strings.Contains(got, ",0,0]") {
		t.Errorf("control: outside it is %s", got)
	}
}
