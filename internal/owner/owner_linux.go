package owner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

func asRoot(id Identity, f func() error) error {
	return onOwnThread(func() error {
		if err := become(id); err != nil {
			return fmt.Errorf("owner: become uid %d: %w", id.UID, err)
		}
		return contain(f)
	})
}

// onOwnThread runs f on a thread that nobody else has meanwhile, and that goes on living only if it is then exactly what it
// was: otherwise it ends, with whatever it became. The process's first thread cannot end, and /proc shows it as the
// process; when the scheduler offers it, it is held while another does the work.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errEarly
		defer func() { done <- err }()
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			err = onOwnThread(f)
			runtime.UnlockOSThread()
			return
		}
		was, unread := rightsNow()
		err = contain(f)
		if unread == nil && was.restore() {
			runtime.UnlockOSThread() // else it ends with this goroutine
		}
	}()
	return <-done
}

// rights are all that becoming somebody changes of a thread.
type rights struct {
	uid, gid int // for files
	groups   []int
	caps     [2]unix.CapUserData
}

// rightsNow returns those of the calling thread.
func rightsNow() (r rights, err error) {
	if r.groups, err = unix.Getgroups(); err != nil {
		return r, err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err = unix.Capget(&header, &r.caps[0]); err != nil {
		return r, err
	}
	r.uid, r.gid = filesAs()
	return r, nil
}

// filesAs is as whom the calling thread uses files: asking for an impossible id changes nothing.
func filesAs() (uid, gid int) {
	uid, _ = unix.SetfsuidRetUid(-1)
	gid, _ = unix.SetfsgidRetGid(-1)
	return uid, gid
}

// restore gives the calling thread its rights back, and reports whether the kernel says that it has exactly these.
// The capabilities come first: they permit the rest.
func (r rights) restore() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if unix.Capset(&header, &r.caps[0]) != nil {
		return false
	}
	_, _ = unix.SetfsuidRetUid(r.uid)
	_, _ = unix.SetfsgidRetGid(r.gid)
	if unix.Setgroups(r.groups) != nil {
		return false
	}
	now, err := rightsNow()
	return err == nil && now.uid == r.uid && now.gid == r.gid && slices.Equal(now.groups, r.groups) && now.caps == r.caps
}

// become changes the calling thread only: these calls, unlike those of package syscall, do not reach the process's
// other threads. Groups go first: the right to change them goes with the capabilities.
func become(id Identity) error {
	if err := unix.Setgroups(id.Groups); err != nil {
		return fmt.Errorf("setgroups: %w", err)
	}
	uid, gid := int(id.UID), int(id.GID)
	// These two report no errors; asking afterwards tells the truth.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	if nowUID, nowGID := filesAs(); nowGID != gid || nowUID != uid {
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
