package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
)

func stat(mode, uid, gid uint32) *unix.Stat_t {
	return &unix.Stat_t{Mode: unix.S_IFREG | mode, Uid: uid, Gid: gid}
}

// The first class that fits decides, as in the kernel.
func TestMay(t *testing.T) {
	alice := userRights{uid: 1000, groups: []uint32{1000, 50}}
	for _, c := range []struct {
		who  userRights
		st   *unix.Stat_t
		want string
	}{
		{alice, stat(0o700, 1000, 0), "rwx"},
		{alice, stat(0o077, 1000, 0), ""},
		{alice, stat(0o570, 0, 50), "rwx"},
		{alice, stat(0o705, 0, 50), ""},
		{alice, stat(0o751, 0, 0), "x"},
		{alice, stat(0o754, 0, 0), "r"},
		{alice, stat(0o722, 0, 0), "w"},
		{userRights{uid: 0}, stat(0, 5, 5), "rw"},
		{userRights{uid: 0}, stat(0o001, 5, 5), "rwx"},
		{userRights{uid: 0}, &unix.Stat_t{Mode: unix.S_IFDIR, Uid: 5}, "rwx"},
	} {
		got := ""
		for bit, letter := range map[uint32]string{mayRead: "r"} {
			if c.who.permitted(bit, c.st) {
				got += letter
			}
		}
		if c.who.permitted(mayWrite, c.st) {
			got += "w"
		}
		if c.who.permitted(mayExecute, c.st) {
			got += "x"
		}
		if got != c.want {
			t.Errorf("%+v %o of %d:%d: %q, want %q", c.who, c.st.Mode, c.st.Uid, c.st.Gid, got, c.want)
		}
	}
}

func TestCouldWrite(t *testing.T) {
	alice, root := userRights{uid: 1000, groups: []uint32{1000}}, userRights{uid: 0}
	for _, c := range []struct {
		who  userRights
		real string
		st   *unix.Stat_t
		want bool
	}{
		{alice, "/usr/bin/x", stat(0o755, 0, 0), false},
		{alice, "/usr/bin/x", stat(0o757, 0, 0), true},
		{alice, "/usr/bin/x", stat(0o775, 0, 1000), true},
		{alice, "/usr/bin/x", stat(0o555, 1000, 0), true}, // its owner can make it writable
		{root, "/usr/bin/x", stat(0o755, 0, 0), false},
		{root, "/usr/bin/x", stat(0o777, 1000, 0), false},
		{root, "/opt/x", stat(0o755, 0, 0), false},
		{root, "/", stat(0o755, 0, 0), false},
		{root, "/srv/x", stat(0o555, 5, 5), true},
		{root, "/etc/x", stat(0o444, 0, 0), true},
		{root, "/usrlocal/x", stat(0o755, 0, 0), true},
		{root, "/libexec/x", stat(0o755, 0, 0), true},
	} {
		if got, _ := c.who.couldWrite(c.real, c.st); got != c.want {
			t.Errorf("%d %s %o: %v", c.who.uid, c.real, c.st.Mode, got)
		}
	}
}

// An access list that may let somebody write counts as if it did.
func TestAccessListCounts(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("f", "x", 0o664)
	other := userRights{uid: 4242, groups: []uint32{4242}}
	var st unix.Stat_t
	b.ok(unix.Lstat(b.path("f"), &st))
	if could, _ := other.couldWrite(b.path("f"), &st); could {
		t.Error("writable by another's group")
	}
	// version 2; user::rw-, user:4242:rw-, group::r--, mask::rw-, other::r--
	acl := []byte{
		2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 0x92, 0x10, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255,
		16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
	}
	if err := unix.Setxattr(b.path("f"), "system.posix_acl_access", acl, 0); err != nil {
		t.Logf("UNPROVEN HERE: no access lists on this file system: %v", err)
		return
	}
	b.ok(unix.Lstat(b.path("f"), &st))
	if could, asked := other.couldWrite(b.path("f"), &st); !could || !asked {
		t.Error("the list lets it write")
	}
}

func TestRunUser(t *testing.T) {
	euid := os.Geteuid()
	w, err := runUser(palyra.WorkspaceRef{Owner: int64(euid)})
	if err != nil || w.uid != uint32(euid) || len(w.groups) == 0 {
		t.Errorf("%+v, %v", w, err)
	}
	if euid != 0 {
		return
	}
	for _, owner := range []int64{-1, 1 << 32} {
		if _, err := runUser(palyra.WorkspaceRef{Owner: owner}); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied {
			t.Errorf("%d: %v", owner, err)
		}
	}
	const unknown = 3_999_999_999 // nobody has it
	dir := t.TempDir()
	if err := os.Chown(dir, unknown, 4242); err != nil {
		t.Fatal(err)
	}
	w, err = runUser(palyra.WorkspaceRef{Path: dir, Owner: unknown})
	if err != nil || len(w.groups) != 1 || w.groups[0] != 4242 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := runUser(palyra.WorkspaceRef{Path: dir + "/gone", Owner: unknown}); palyra.AsError(err).Reason != palyra.ReasonFileNotFound {
		t.Error(err)
	}
	w, err = runUser(palyra.WorkspaceRef{Owner: 1}) // daemon, whose group is 1
	if err != nil || w.uid != 1 || len(w.groups) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}
