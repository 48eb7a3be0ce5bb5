package owner

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func asRoot(id Identity, f func() error) error {
	return onOwnThread(func() error {
		if err := become(id); err != nil {
			return fmt.Errorf("owner: become uid %d: %w", id.UID, err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that ends with it, and whatever it became with
// it. The process's first thread cannot end, and /proc shows it as the process;
// when the scheduler offers it, it is held while another does the work.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errEarly
		defer func() { done <- err }()
		runtime.LockOSThread() // never unlocked once the thread became somebody
		if unix.Gettid() == os.Getpid() {
			err = onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		err = contain(f)
	}()
	return <-done
}

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
