package bubble

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// open opens a path for mounting, with the owner's rights and without following
// a link.
func (r room) open(path string) (*os.File, error) {
	var f *os.File
	err := r.asOwner(func() error {
		fd, err := openPlain(path, unix.O_PATH)
		if err == nil {
			f = os.NewFile(uintptr(fd), path)
		}
		return err
	})
	return f, err
}

// asOwner runs f with the rights to files that bubblewrap will have: those of the
// workspace's owner, in no other group, with no capability. Root would find more,
// and bubblewrap then fail without saying why.
func (r room) asOwner(f func() error) error {
	if os.Geteuid() != 0 {
		return f()
	}
	return ownThread(func() error {
		if err := becomeOwner(int(r.uid), int(r.gid)); err != nil {
			return fmt.Errorf("bubble: become uid %d: %w", r.uid, err)
		}
		return f()
	})
}

// ownThread runs f on a thread that ends with it, and whatever it became with
// it. The process's first thread cannot end: when the scheduler offers that one,
// it is held while another does the work.
func ownThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("bubble: the work on a thread of its own ended early")
		defer func() { done <- err }()
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err = ownThread(f)
			runtime.UnlockOSThread()
			return
		}
		err = f()
	}()
	return <-done
}

// becomeOwner changes the calling thread only: these calls, unlike those of
// package syscall, do not reach the process's other threads.
func becomeOwner(uid, gid int) error {
	if err := unix.Setgroups(nil); err != nil {
		return err
	}
	if uid != 0 {
		// These two report no errors; asking with an impossible id tells the truth.
		_, _ = unix.SetfsgidRetGid(gid)
		_, _ = unix.SetfsuidRetUid(uid)
		nowGID, _ := unix.SetfsgidRetGid(-1)
		nowUID, _ := unix.SetfsuidRetUid(-1)
		if nowGID != gid || nowUID != uid {
			return errors.New("the kernel refused")
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	caps[0].Effective, caps[1].Effective = 0, 0
	return unix.Capset(&header, &caps[0])
}
