package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra"
)

// identity is who a run is.
type identity struct{ uid, gid int }

// whoRuns says who works in a workspace: its owner, where the daemon is root and
// may become that, else the daemon itself. The group is the owner's own; a uid
// that the system does not know has the workspace's.
func whoRuns(ws palyra.WorkspaceRef) (identity, error) {
	euid := os.Geteuid()
	switch {
	case ws.Owner < 0 || ws.Owner > 1<<32-2:
		return identity{}, palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "uid %d cannot own a workspace", ws.Owner)
	case euid != 0 && ws.Owner != int64(euid):
		return identity{}, palyra.Errorf(palyra.Denied, palyra.ReasonWorkspaceDenied, "the daemon cannot work as uid %d", ws.Owner).
			WithRemedy("run the daemon as that user, or as root")
	case euid != 0:
		return identity{euid, os.Getegid()}, nil
	}
	id := identity{uid: int(ws.Owner)}
	if u, err := user.LookupId(strconv.Itoa(id.uid)); err == nil {
		id.gid, err = strconv.Atoi(u.Gid)
		if err != nil {
			return identity{}, fmt.Errorf("sandbox: group of uid %d: %w", id.uid, err)
		}
		return id, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(ws.Path, &st); err != nil {
		return identity{}, fmt.Errorf("sandbox: group of the workspace: %w", err)
	}
	id.gid = int(st.Gid)
	return id, nil
}

// as runs f with the file permissions of who and nothing else: what a run left
// is removed by the rights that made it. A directory that the program moved into
// its room may hold what it could not have deleted, and root would.
func as(who identity, f func() error) error {
	if os.Geteuid() != 0 {
		return f()
	}
	return onOwnThread(func() error {
		if err := become(who); err != nil {
			return fmt.Errorf("sandbox: become uid %d: %w", who.uid, err)
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
		err := errors.New("sandbox: the work on a thread of its own ended early")
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

// become changes the calling thread only: these calls, unlike those of package
// syscall, do not reach the process's other threads.
func become(who identity) error {
	if who.uid != 0 {
		if err := unix.Setgroups(nil); err != nil {
			return err
		}
		// These two report no errors; asking with an impossible id tells the truth.
		_, _ = unix.SetfsgidRetGid(who.gid)
		_, _ = unix.SetfsuidRetUid(who.uid)
		gid, _ := unix.SetfsgidRetGid(-1)
		uid, _ := unix.SetfsuidRetUid(-1)
		if gid != who.gid || uid != who.uid {
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
