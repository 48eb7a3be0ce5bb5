package owner

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func asRoot(id Identity, f func() error) error { return threads.do(id, f) }

// become changes the calling thread only: these calls, unlike those of package syscall, do not reach the process's
// other threads. Groups go first: the right to change them goes with the capabilities.
func become(id Identity) error {
	if err := unix.Setgroups(id.Groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	uid, gid := int(id.UID), int(id.GID)
	// These two report no errors; asking with an impossible id tells the truth.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	nowGID, _ := unix.SetfsgidRetGid(-1)
	nowUID, _ := unix.SetfsuidRetUid(-1)
	if nowGID != gid || nowUID != uid {
		return errors.New("the kernel refused")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	caps[0].Effective, caps[1].Effective = 0, 0
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
