//go:build !linux

package owner

import "errors"

// asRoot: elsewhere no thread has rights of its own, and root's are not used in somebody's place.
func asRoot(Identity, func() error) error {
	return errors.New("owner: root takes on a user's rights on Linux only")
}
