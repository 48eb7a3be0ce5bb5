package seal

import "palyra/internal/owner"

// asOwner runs f with the file permissions of the workspace's owner and nothing
// else: what root makes in somebody's directory, that somebody could replace
// while it is being made. Root's own nobody else can, and who is not root works
// with what he has.
func (t *tree) asOwner(f func() error) error {
	if t.euid != 0 || t.uid == 0 {
		return f()
	}
	return owner.Do(owner.Identity{UID: int64(t.uid), GID: int64(t.gid)}, f)
}
