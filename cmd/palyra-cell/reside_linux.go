package main

import (
	"errors"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
)

// reside is a cell that is process 1 of namespaces which bubblewrap made. It finishes the room as
// its daemon says, and then is a supervisor like any other.
//
// Namespaces and capabilities belong to threads. The hand makes the namespaces and starts the launcher, so whatever
// runs is in them; the other threads stay where they were and touch nothing. When the room is built, all threads
// lose every capability and get the filter, so that the waiting cell is harmless. Only the launcher keeps one
// capability, to lay a sealed program over its path, until it becomes the program.
func reside(errs io.Writer) int {
	if err := checkPIDNamespace(); err != nil {
		return refuse(errs, err.Error())
	}
	tidy()
	h, err := newHand(false)
	if err != nil {
		return refuse(errs, err.Error())
	}
	h.first = true
	b := builder{hand: h, lower: -1}
	b.begin()
	s, err := newCell()
	if err != nil {
		return refuse(errs, err.Error())
	}
	s.hand, b.cell = h, s
	o := order{}
	if o.files, o.err = s.conn.Recv(&o.Order); hasEnded(o.err) {
		return 0
	}
	doors, f := b.settle(o)
	if f.step != "" {
		// The end of this process, the first of its namespaces, ends the room.
		s.report(cell.Report{Kind: cell.ReportFailed, Step: f.step, Errno: int(f.errno), Text: f.message()})
		return refused
	}
	s.follow()
	if err := s.built(doors); err != nil {
		return refused
	}
	b.rehearse()
	return s.loop()
}

// built reports that the room is built and hands over the sockets of its listeners. They are the
// daemon's then: one that it closes is closed.
func (s *supervisor) built(doors []*os.File) error {
	defer cell.CloseAll(doors)
	fds := make([]int, len(doors))
	for i, d := range doors {
		fds[i] = int(d.Fd())
	}
	return s.conn.Send(cell.Report{Kind: cell.ReportBuilt, Version: cell.Version, Launcher: s.launcher}, fds...)
}

// initialPidNamespace is the kernel's fixed number of the machine's own pid namespace.
const initialPidNamespace = "pid:[4026531836]"

// checkPIDNamespace makes sure that kill(-1) from here reaches the room and nothing else:
// this is process 1, and not the machine's.
func checkPIDNamespace() error {
	if unix.Getpid() != 1 {
		return errors.New("not process 1 of its own namespaces")
	}
	now, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(now, "pid:[") || now == initialPidNamespace {
		return errors.New("process 1 of the machine itself")
	}
	return nil
}

// tidy closes the descriptors that bubblewrap left open, perhaps of directories outside of the
// room, and sees to it that the launcher inherits none that it missed. Those that Go's runtime made
// for itself stay: they are of types that no file has.
func tidy() {
	const gap = 16 // after so many free numbers there are no more
	_ = unix.CloseRange(cell.ControlFD+1, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	for fd, free := cell.ControlFD+1, 0; free < gap; fd++ {
		var st unix.Stat_t
		switch err := unix.Fstat(fd, &st); {
		case err != nil:
			free++
		case st.Mode&unix.S_IFMT != 0:
			free = 0
			_ = unix.Close(fd)
		}
	}
}

// settle takes the first order, which must be to build, and builds.
func (b *builder) settle(o order) ([]*os.File, failure) {
	switch {
	case o.err != nil:
		return nil, failure{step: "protocol", errno: unix.EBADMSG, text: o.err.Error()}
	case o.Kind == cell.OrderStop:
		cell.CloseAll(o.files)
		return nil, failure{step: "stopped", text: o.Reason}
	case o.Kind != cell.OrderBuild || len(o.files) == 0:
		cell.CloseAll(o.files)
		return nil, failure{step: "protocol", errno: unix.EBADMSG, text: "no room, and something else asked for"}
	}
	room, err := cell.ReadRoom(o.files[0])
	_ = o.files[0].Close()
	if err == nil && len(room.Extra) != len(o.files)-1 {
		err = errors.New("descriptors that do not belong to the room")
	}
	if b.extra = (handed{extra: room.Extra, files: o.files[1:]}); err == nil {
		err = b.extra.check()
	}
	if err != nil {
		return nil, failure{step: "room", errno: unix.EINVAL, text: err.Error()}
	}
	b.room = &room
	return b.build()
}
