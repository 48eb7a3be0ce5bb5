package seal

import "palyra/internal/owner"

// asOwner runs f with the file permissions of the workspace's owner and nothing else: in a
// directory of that user, he could replace a file while root makes it. In root's own directories
// nobody can, and a daemon that is not root has the right permissions already.
func (t *tree) asOwner(f func() error) error {
	if t.euid != 0 || t.uid == 0 {
		return f()
	}
	return owner.Do(owner.Identity{UID: int64(t.uid), GID: int64(t.gid)}, f)
}
