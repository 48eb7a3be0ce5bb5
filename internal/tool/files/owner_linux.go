package files

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra"
)

// noGroup stands for a group nobody is in.
const noGroup = 65534

// identity is whose file permissions hold.
type identity struct {
	uid    int
	gid    int
	groups []uint32
}

// asOwner runs f with the file permissions of the workspace's owner. For a
// daemon of that user, and for workspaces of root, that is how it runs anyway.
// Otherwise f runs on a thread whose file system ids and groups are the owner's
// and whose capabilities are off. The thread is never given back: it ends with
// the goroutine, and the identity with it.
func asOwner(ref palyra.WorkspaceRef, f func() error) error {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return f()
	}
	id, err := identityOf(ref.Owner)
	if err != nil {
		return err
	}
	return onOwnThread(func() error {
		if err := become(id); err != nil {
			return err
		}
		return f()
	})
}

// onOwnThread runs f on a thread that ends with it. The process's first thread
// cannot end, and /proc shows it as the process; when the scheduler offers it, it
// is held while another does the work.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("files: the work on a thread of its own ended early")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("files: panic: %v", r)
			}
			done <- err
		}()
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

// identityOf looks the user up. A uid that the system does not know has no
// groups at all, not even the directory's: being in that is no proof of being
// let in.
func identityOf(uid int64) (identity, error) {
	if uid <= 0 || uid > 1<<32-2 {
		return identity{}, palyra.Errorf(palyra.Invalid, palyra.ReasonWorkspaceDenied, "uid %d cannot own a workspace", uid)
	}
	id := identity{uid: int(uid), gid: noGroup}
	u, err := user.LookupId(strconv.FormatInt(uid, 10))
	if err != nil {
		return id, nil
	}
	if id.gid, err = strconv.Atoi(u.Gid); err != nil {
		return identity{}, fmt.Errorf("files: group of uid %d: %w", uid, err)
	}
	names, err := u.GroupIds()
	if err != nil {
		return identity{}, fmt.Errorf("files: groups of uid %d: %w", uid, err)
	}
	for _, n := range names {
		g, err := strconv.ParseUint(n, 10, 32)
		if err != nil {
			return identity{}, fmt.Errorf("files: groups of uid %d: %w", uid, err)
		}
		id.groups = append(id.groups, uint32(g))
	}
	return id, nil
}

// become changes the calling thread only: the raw calls below do not reach the
// process's other threads, unlike those of package syscall.
func become(id identity) error {
	if unsafe.Sizeof(uintptr(0)) < 8 { // the call numbers below mean 16-bit ids there
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "as root on a 32-bit system only workspaces of root are served")
	}
	var first unsafe.Pointer
	if len(id.groups) > 0 {
		first = unsafe.Pointer(&id.groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(id.groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("files: become uid %d: setgroups: %w", id.uid, errno)
	}
	// These two report no errors; asking with an impossible id tells the truth.
	_, _ = unix.SetfsgidRetGid(id.gid)
	_, _ = unix.SetfsuidRetUid(id.uid)
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if gid != id.gid || uid != id.uid {
		return fmt.Errorf("files: become uid %d: the kernel refused", id.uid)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("files: become uid %d: capget: %w", id.uid, err)
	}
	caps[0].Effective, caps[1].Effective = 0, 0
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("files: become uid %d: capset: %w", id.uid, err)
	}
	return nil
}

// ownerMechanisms names what holds a root daemon to the owner's permissions.
func ownerMechanisms(ref palyra.WorkspaceRef) []string {
	if os.Geteuid() != 0 || ref.Owner == 0 {
		return nil
	}
	return []string{"owner_fsuid", "no_capabilities"}
}
