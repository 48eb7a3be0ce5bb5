package files

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/owner"
	"palyra/internal/tool"
)

// noGroup is a group without members.
const noGroup = 65534

// asOwner runs f with the file permissions of the workspace's owner. A daemon of that user has
// these anyway, and so has root's in a workspace of root.
// On the stage of an agent they are those of its runs, whose group alone is known there.
func asOwner(ctx context.Context, ref palyra.WorkspaceRef, f func() error) error {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return f()
	}
	id, err := identityOf(ref.Owner)
	if dir := tool.LayerOf(ctx); dir != nil && err == nil {
		var st unix.Stat_t
		err = unix.Fstat(int(dir.Fd()), &st)
		id = owner.Identity{UID: ref.Owner, GID: int64(st.Gid)}
	}
	if err != nil {
		return err
	}
	return owner.Do(id, f)
}

// identityOf looks up the user. A uid that the system does not know has no groups at all, not even
// the directory's: that the directory has a group does not prove that the user is in it.
func identityOf(uid int64) (owner.Identity, error) {
	if uid <= 0 || uid > 1<<32-2 {
		return owner.Identity{}, palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "uid %d cannot own a workspace", uid)
	}
	id := owner.Identity{UID: uid, GID: noGroup}
	u, err := user.LookupId(strconv.FormatInt(uid, 10))
	if err != nil {
		return id, nil
	}
	if id.GID, err = strconv.ParseInt(u.Gid, 10, 64); err != nil {
		return owner.Identity{}, fmt.Errorf("files: group of uid %d: %w", uid, err)
	}
	names, err := u.GroupIds()
	if err != nil {
		return owner.Identity{}, fmt.Errorf("files: groups of uid %d: %w", uid, err)
	}
	for _, n := range names {
		g, err := strconv.Atoi(n)
		if err != nil {
			return owner.Identity{}, fmt.Errorf("files: groups of uid %d: %w", uid, err)
		}
		id.Groups = append(id.Groups, g)
	}
	return id, nil
}

// ownerMechanisms names the mechanism that holds a root daemon to the owner's permissions.
func ownerMechanisms(ref palyra.WorkspaceRef) []string {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return nil
	}
	return []string{"owner_fsuid", "no_capabilities"}
}
