//go:build unix && !linux

package files

import (
	"context"
	"os"

	"palyra"
)

// asOwner runs f with the file permissions of the workspace's owner. On these systems a daemon of
// root cannot take on another's for one thread, so it refuses.
func asOwner(_ context.Context, ref palyra.WorkspaceRef, f func() error) error {
	if os.Geteuid() == 0 && ref.Owner != 0 {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "as root only workspaces of root are served on this system").
			WithRemedy("run palyrad as the workspace's owner")
	}
	return f()
}

func ownerMechanisms(palyra.WorkspaceRef) []string { return nil }
