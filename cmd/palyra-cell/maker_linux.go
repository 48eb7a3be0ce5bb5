package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/first"
)

// maker is the one thread of a template that makes rooms: it makes their first processes, and goes into their
// namespaces to furnish them. It is locked for as long as the template lives: the processes die with it.
type maker struct {
	work     chan func()
	mnt, net int // the template's own namespaces
	who      first.Who
	crib     *first.Crib // nil: first processes are copies of this one
}

// newMaker starts the thread. Nothing that is mounted outside from then on appears in a room.
func newMaker() (*maker, error) {
	m := &maker{work: make(chan func()), who: first.Who{UID: unix.Getuid(), GID: unix.Getgid()}}
	m.who.LastCap, _ = capabilities()
	var err error
	if m.crib, err = first.NewCrib(); err != nil {
		return nil, err
	}
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range m.work {
			f()
		}
	}()
	m.do(func() { err = m.begin() })
	return m, err
}

// do runs f on the maker's thread and waits for it.
func (m *maker) do(f func()) {
	done := make(chan struct{})
	m.work <- func() { f(); close(done) }
	<-done
}

func (m *maker) begin() (err error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil { // a thread that shares its directory cannot go elsewhere
		return fmt.Errorf("namespace: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if err := uncoverProc(); err != nil {
		return fmt.Errorf("namespace: /proc: %w", err)
	}
	if err := spreadCovers(); err != nil {
		return fmt.Errorf("namespace: %s: %w", cell.RoomShm, err)
	}
	if m.mnt, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	if m.net, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	return nil
}

// uncoverProc takes away what bubblewrap lays over files of /proc: the kernel lets nobody mount another /proc where one
// hides something. Nothing ever runs in the template, and rooms get covers of their own.
func uncoverProc() error {
	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus"} {
		for {
			err := unix.Unmount("/proc/"+name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
				break // it is no mount
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// birth is a first process as the template knows it.
type birth struct {
	pid      int
	link     *os.File // to it, until it is built
	mnt, net int      // its namespaces: kept open, so that they are taken down here and not where somebody waits
}

// bear makes the first process of a room. It runs on the maker's thread.
func (m *maker) bear(r *cell.Room, line *os.File) (b birth, fault failure) {
	b = birth{mnt: -1, net: -1}
	ours, theirs, err := cell.Pair()
	if err != nil {
		return b, failed("maker", "", err)
	}
	defer func() { _ = theirs.Close() }()
	b.link = ours
	if b.pid, err = first.Fork(m.crib, r, m.who, line, theirs); err != nil {
		return b, failed("namespace", "", err)
	}
	if step, err := first.Born(b.link); err != nil {
		return b, failed(step, "", err)
	}
	ns := "/proc/" + strconv.Itoa(b.pid) + "/ns/"
	if b.mnt, err = unix.Open(ns+"mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return b, failed("namespace", "", err)
	}
	if b.net, err = unix.Open(ns+"net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return b, failed("namespace", "", err)
	}
	return b, failure{}
}

// visit runs do in the room's namespaces of files and network. It runs on the maker's thread.
func (m *maker) visit(b birth, do func() failure) (f failure) {
	if err := unix.Setns(b.net, unix.CLONE_NEWNET); err != nil {
		return failed("namespace", "", err)
	}
	if err := unix.Setns(b.mnt, unix.CLONE_NEWNS); err != nil {
		return failed("namespace", "", errors.Join(err, unix.Setns(m.net, unix.CLONE_NEWNET)))
	}
	defer func() { // a maker that cannot come back makes no more rooms
		if err := errors.Join(unix.Setns(m.mnt, unix.CLONE_NEWNS), unix.Setns(m.net, unix.CLONE_NEWNET)); err != nil {
			_, _ = os.Stderr.WriteString("palyra-cell: the template is lost: " + err.Error() + "\n")
			os.Exit(refused)
		}
	}()
	return do()
}
