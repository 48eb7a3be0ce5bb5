package sandbox

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/owner"
)

// identity is the user and group of a run.
type identity struct{ uid, gid int }

// whoRuns returns who works in a workspace: its owner, where the daemon is root and may become that user, else the
// daemon itself. The group is the owner's own; a uid that the system does not know has the workspace's.
func whoRuns(ws palyra.WorkspaceRef) (identity, error) {
	euid := os.Geteuid()
	switch {
	case ws.Owner < 0 || ws.Owner > 1<<32-2:
		return identity{}, palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "uid %d cannot own a workspace", ws.Owner)
	case euid != 0 && ws.Owner != int64(euid):
		return identity{}, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "the daemon cannot work as uid %d", ws.Owner).
			WithRemedy("run the daemon as that user, or as root")
	case euid != 0:
		return identity{euid, os.Getegid()}, nil
	}
	id := identity{uid: int(ws.Owner)}
	if u, err := user.LookupId(strconv.Itoa(id.uid)); err == nil {
		id.gid, err = strconv.Atoi(u.Gid)
		if err != nil {
			return identity{}, fmt.Errorf("sandbox: group of uid %d: %w", id.uid, err)
		}
		return id, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(ws.Path, &st); err != nil {
		return identity{}, fmt.Errorf("sandbox: group of the workspace: %w", err)
	}
	id.gid = int(st.Gid)
	return id, nil
}

// runAs runs f with the file permissions of who and nothing else: files of a run are removed with
// the rights that made them. A directory that the program moved into its room may hold files that
// the program could not have deleted, and root could.
func runAs(who identity, f func() error) error {
	return owner.Do(owner.Identity{UID: int64(who.uid), GID: int64(who.gid)}, f)
}
