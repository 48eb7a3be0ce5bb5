package files

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"palyra"
	"palyra/internal/owner"
)

// noGroup stands for a group nobody is in.
const noGroup = 65534

// asOwner runs f with the file permissions of the workspace's owner. For a
// daemon of that user, and for workspaces of root, that is how it runs anyway.
func asOwner(ref palyra.WorkspaceRef, f func() error) error {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return f()
	}
	id, err := identityOf(ref.Owner)
	if err != nil {
		return err
	}
	return owner.Do(id, f)
}

// identityOf looks the user up. A uid that the system does not know has no
// groups at all, not even the directory's: being in that is no proof of being
// let in.
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

// ownerMechanisms names what holds a root daemon to the owner's permissions.
func ownerMechanisms(ref palyra.WorkspaceRef) []string {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return nil
	}
	return []string{"owner_fsuid", "no_capabilities"}
}
