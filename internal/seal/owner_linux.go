package seal

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// asOwner runs f with the file permissions of the workspace's owner and nothing
// else: what root makes in somebody's directory, that somebody could replace
// while it is being made.
func (t *tree) asOwner(f func() error) error {
	if t.euid != 0 || t.uid == 0 {
		return f()
	}
	return onOwnThread(func() error {
		if err := become(int(t.uid), int(t.gid)); err != nil {
			return fmt.Errorf("seal: become uid %d: %w", t.uid, err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that ends with it, and whatever it became with
// it. The process's first thread cannot end; when the scheduler offers it, it is
// held while another does the work.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("seal: the work on a thread of its own ended early")
		defer func() { done <- err }()
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err = onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		err = f()
	}()
	return <-done
}

// become changes the calling thread only, unlike the calls of package syscall.
func become(uid, gid int) error {
	if err := unix.Setgroups(nil); err != nil {
		return err
	}
	// These two report no errors; asking with an impossible id tells the truth.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	g, _ := unix.SetfsgidRetGid(-1)
	u, _ := unix.SetfsuidRetUid(-1)
	if g != gid || u != uid {
		return errors.New("the kernel refused")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	caps[0].Effective, caps[1].Effective = 0, 0
	return unix.Capset(&header, &caps[0])
}
