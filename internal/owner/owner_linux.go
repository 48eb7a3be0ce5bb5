package owner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	if r.uid, r.gid = filesAs(); !told(r.uid, r.gid, r.groups...) {
		return r, errUntold
	}
	return r, nil
}

var errUntold = errors.New("owner: the kernel does not tell all rights of the thread")

// told reports whether the kernel names these ids. Those that have no number in this user namespace it calls by one that
// may be somebody else's as well: what is so called cannot be given back.
func told(uid, gid int, groups ...int) bool {
	u, g := unnamed()
	return u > 0 && g > 0 && uid != u && gid != g && !slices.Contains(groups, g)
}

// unnamed are the kernel's numbers for a user and a group without one; 0: they are not known.
var unnamed = sync.OnceValues(func() (uid, gid int) {
	number := func(name string) int {
		b, err := os.ReadFile("/proc/sys/kernel/" + name)
		n, e := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || e != nil {
			return 0
		}
		return n
	}
	return number("overflowuid"), number("overflowgid")
})

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
