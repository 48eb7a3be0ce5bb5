package process

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/subpath"
)

// userRights is the run's user, as far as file permissions are concerned.
type userRights struct {
	uid    uint32
	groups []uint32 // the primary one and, for a daemon that is not root, the others that a run keeps
}

// runUser returns the user of a run in the workspace. For a root daemon that is the workspace's
// owner with the primary group alone: other groups are dropped at launch. A uid that the system
// does not know runs with the workspace's group.
func runUser(ref palyra.WorkspaceRef) (userRights, error) {
	euid := os.Geteuid()
	if euid != 0 {
		if ref.Owner != int64(euid) {
			return userRights{}, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "work for uid %d cannot be done here", ref.Owner).
				WithRemedy("run palyrad as that user")
		}
		groups, err := os.Getgroups()
		if err != nil {
			return userRights{}, fmt.Errorf("process: groups: %w", err)
		}
		w := userRights{uid: uint32(euid), groups: []uint32{uint32(os.Getegid())}}
		for _, g := range groups {
			w.groups = append(w.groups, uint32(g))
		}
		return w, nil
	}
	if ref.Owner < 0 || ref.Owner > 1<<32-2 {
		return userRights{}, palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "uid %d cannot own a workspace", ref.Owner)
	}
	u, err := user.LookupId(strconv.FormatInt(ref.Owner, 10))
	if err != nil {
		var st unix.Stat_t
		if err := unix.Lstat(ref.Path, &st); err != nil {
			return userRights{}, fail("look at", ref.Path, err)
		}
		return userRights{uid: uint32(ref.Owner), groups: []uint32{st.Gid}}, nil
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return userRights{}, fmt.Errorf("process: group of uid %d: %w", ref.Owner, err)
	}
	return userRights{uid: uint32(ref.Owner), groups: []uint32{uint32(gid)}}, nil
}

// Permission bits as in a file's mode.
const (
	mayRead    = 4
	mayWrite   = 2
	mayExecute = 1
)

// permitted reports whether the mode bits let the user do something with a file. For root everything counts that
// some user may do: root's runs have no capabilities, and the kernel then refuses the rest.
func (w userRights) permitted(bit uint32, st *unix.Stat_t) bool {
	switch {
	case w.uid == 0:
		return bit != mayExecute || st.Mode&0o111 != 0 || st.Mode&unix.S_IFMT == unix.S_IFDIR
	case w.uid == st.Uid:
		return st.Mode>>6&bit != 0
	case slices.Contains(w.groups, st.Gid):
		return st.Mode>>3&bit != 0
	}
	return st.Mode&bit != 0
}

// readOnlyInside are the directories that every tier makes read-only, so that not even root's runs
// can write there. For other users the mode bits count.
var readOnlyInside = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}

// couldWrite reports whether the user could change the file at the real path: write it, or make it writable as
// its owner. Access lists are not read; one that may let somebody write counts as if it did. asked: whether there is one
// decided.
func (w userRights) couldWrite(real string, st *unix.Stat_t) (could, asked bool) {
	if w.uid == 0 {
		for _, dir := range readOnlyInside {
			if subpath.Within(dir, real) {
				return false, false
			}
		}
		return real != "/", false // a directory above them all; "/" itself is read-only inside as well
	}
	if w.uid == st.Uid || w.permitted(mayWrite, st) {
		return true, false
	}
	const groupWrite = 0o020 // the mask, if there is an access list
	if st.Mode&groupWrite == 0 {
		return false, false
	}
	return hasAccessList(real), true
}

// hasAccessList reports whether a file has an access list; true when that cannot be found out.
func hasAccessList(real string) bool {
	_, err := unix.Lgetxattr(real, "system.posix_acl_access", nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}
