package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/cell"
	"palyra/internal/cell/first"
)

// rooms is a template: process 1 of namespaces that bubblewrap made, in which nothing ever runs. It makes rooms as its
// daemon says, watches what runs in them, and keeps the capabilities that this takes. Whoever is in a room sees nothing
// of it: it is in the namespaces around the room's own.
type rooms struct {
	conn   *cell.Conn
	maker  *maker
	byID   map[int]*madeRoom
	ticker *time.Ticker
	looks  bool // the ticker goes
	orders chan order
	ended  chan os.Signal // children did

	past []*madeRoom // rooms whose first processes have ended, until what was kept of them is given back
	rest *time.Timer // then
}

// madeRoom is one of its rooms.
type madeRoom struct {
	id    int
	birth birth
	watch *watch    // nil: nobody asked for it
	over  time.Time // when it was seen over a limit; zero: it was not
}

// template makes rooms until its daemon is gone.
func template(errs io.Writer) int {
	if err := checkPIDNamespace(); err != nil {
		return refuse(errs, err.Error())
	}
	if err := tidy(); err != nil {
		return refuse(errs, err.Error())
	}
	// Nothing may look into the process that makes rooms, and nothing but the end of its socket ends it.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return refuse(errs, err.Error())
	}
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE)
	unix.CloseOnExec(cell.ControlFD)
	conn, err := cell.NewConn(os.NewFile(cell.ControlFD, "control"))
	if err != nil {
		return refuse(errs, err.Error())
	}
	m, err := newMaker()
	if err != nil {
		_ = conn.Send(cell.Report{Kind: cell.ReportFailed, Step: "namespace", Errno: int(number32(err)), Text: err.Error()})
		return refused
	}
	t := &rooms{
		conn: conn, maker: m, byID: map[int]*madeRoom{}, ticker: time.NewTicker(everyDefault),
		orders: make(chan order), ended: make(chan os.Signal, 1), rest: time.NewTimer(restsFor),
	}
	signal.Notify(t.ended, unix.SIGCHLD)
	go orders(conn, t.orders)
	if err := conn.Send(cell.Report{Kind: cell.ReportReady, Version: cell.Version}); err != nil {
		return refused
	}
	return t.loop()
}

func (t *rooms) loop() int {
	t.ticker.Stop() // until something is watched
	for {
		select {
		case o, ok := <-t.orders:
			if !ok || o.err != nil || !t.obey(o) {
				return refused // with this process, the first of its namespaces, everything in them ends
			}
		case <-t.ended:
			for r, ok := wait(unix.WNOHANG); ok && r.pid != 0; r, ok = wait(unix.WNOHANG) {
				t.bury(r.pid)
			}
		case <-t.ticker.C:
			t.look()
		case <-t.rest.C:
			t.giveBack()
		}
	}
}

// obey does what a packet says; false: it makes no sense.
func (t *rooms) obey(o order) bool {
	switch {
	case o.Kind == cell.OrderBuild && o.Room > 0 && t.byID[o.Room] == nil && len(o.files) >= 2:
		t.build(o)
		return true
	case o.Kind == cell.OrderCover && len(o.files) == 1:
		t.cover(o)
		return true
	case o.Kind == cell.OrderWatch && o.Watch != nil && len(o.files) == 0:
		t.follow(o)
		return true
	}
	cell.CloseAll(o.files)
	return false
}

func (t *rooms) report(r cell.Report, fds ...int) { _ = t.conn.Send(r, fds...) }

func (t *rooms) fail(id int, f failure) {
	t.report(cell.Report{Kind: cell.ReportFailed, Room: id, Step: f.step, Errno: int(f.errno), Text: f.message()})
}

// build makes a room, and hands its first process and its sockets over.
func (t *rooms) build(o order) {
	defer cell.CloseAll(o.files[:2])
	r, err := cell.ReadRoom(o.files[0])
	extra := handed{extra: r.Extra, files: o.files[2:]}
	if err == nil && len(r.Extra) != len(o.files)-2 {
		err = errors.New("descriptors that do not belong to the room")
	}
	if err == nil {
		err = extra.check()
	}
	if err != nil {
		cell.CloseAll(o.files[2:])
		t.fail(o.Room, failure{step: "room", errno: unix.EINVAL, text: err.Error()})
		return
	}
	made := &madeRoom{id: o.Room}
	b := builder{room: &r, extra: extra, lower: -1}
	var f failure
	t.maker.do(func() {
		if made.birth, f = t.maker.bear(&r, o.files[1]); f.step == "" {
			f = t.maker.visit(made.birth, b.build)
		}
	})
	if f.step == "" {
		f = t.finish(made, &b)
	}
	if f.step != "" {
		b.discard()
		extra.close()
		made.birth.end()
		t.fail(o.Room, f)
	}
}

// finish lets the first process go, which is the daemon's from then on.
func (t *rooms) finish(made *madeRoom, b *builder) failure {
	pidfd, err := unix.PidfdOpen(made.birth.pid, 0)
	if err != nil {
		return failed("maker", "", err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	if err := first.Release(made.birth.link, b.rules.FD()); err != nil {
		return failed("maker", "", err)
	}
	_ = made.birth.link.Close()
	made.birth.link = nil
	b.rules.Forget()
	w, err := newWatch(made.birth.pid)
	if err != nil {
		return failed("maker", "", err)
	}
	w.extra, w.places = b.extra, b.places
	made.watch = w
	t.byID[made.id] = made
	fds := []int{pidfd}
	for _, f := range append(b.doors, b.copies...) {
		fds = append(fds, int(f.Fd()))
	}
	t.report(cell.Report{Kind: cell.ReportBuilt, Version: cell.Version, Room: made.id}, fds...)
	cell.CloseAll(b.doors)
	cell.CloseAll(b.copies)
	return failure{}
}

// end ends a first process, if there is one, and gives its namespaces back.
func (b *birth) end() {
	if b.pid > 1 {
		_ = unix.Kill(b.pid, unix.SIGKILL) // the reaper has the rest
	}
	if b.link != nil {
		_ = b.link.Close()
	}
	for _, fd := range []int{b.mnt, b.net} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// bury takes leave of a room whose first process has ended.
func (t *rooms) bury(pid int) {
	for id, r := range t.byID {
		if r.birth.pid != pid {
			continue
		}
		delete(t.byID, id)
		t.report(cell.Report{Kind: cell.ReportGone, Room: id, Usage: r.watch.usage(usage{})})
		r.birth.pid = 0 // reaped: the number may be somebody else's
		if t.past = append(t.past, r); len(t.past) == 1 {
			t.rest.Reset(restsFor)
		}
	}
	if len(t.byID) == 0 {
		t.ticker.Stop()
		t.looks = false
	}
}

// restsFor is how long what was kept of a room stays when it is over. Taking its mounts down is half a millisecond of a
// processor, at the moment when the daemon has to account for the run and answer.
const restsFor = 3 * time.Millisecond

// giveBack gives back what was kept of rooms that are over.
func (t *rooms) giveBack() {
	for _, r := range t.past {
		r.birth.end()
		r.watch.close()
	}
	t.past = nil
}

// cover lays a sealed program over its path in a room, or a file.
func (t *rooms) cover(o order) {
	defer cell.CloseAll(o.files)
	r := t.byID[o.Room]
	if r == nil {
		t.fail(o.Room, failure{step: "cover", errno: unix.ESRCH, text: "there is no such room"})
		return
	}
	var f failure
	t.maker.do(func() {
		f = t.maker.visit(r.birth, func() failure { return failed("cover", string(o.Path), coverOf(o.Order).lay(int(o.files[0].Fd()))) })
	})
	if f.step != "" {
		t.fail(o.Room, f)
		return
	}
	t.report(cell.Report{Kind: cell.ReportCovered, Room: o.Room})
}

// follow begins to hold a room to its limits.
func (t *rooms) follow(o order) {
	r := t.byID[o.Room]
	if r == nil {
		return // it has ended already
	}
	if err := r.watch.set(*o.Watch); err != nil {
		t.exceeded(r, "unwatched")
		return
	}
	r.watch.on = true
	t.keepLooking(r.watch.every())
	t.lookAt(r) // its program has run for a while already
}

// keepLooking has the ticker go. One that goes is left alone: rooms that come one after the other would put the next look
// off for ever.
func (t *rooms) keepLooking(every time.Duration) {
	if !t.looks {
		t.looks = true
		t.ticker.Reset(every)
	}
}

// look ends rooms that are over a limit. One that cannot be watched is ended, too.
func (t *rooms) look() {
	for _, r := range t.byID {
		switch {
		case !r.watch.on:
		case !r.over.IsZero():
			if time.Since(r.over) > overFor { // nobody else ended it
				_ = unix.Kill(r.birth.pid, unix.SIGKILL)
			}
		default:
			t.lookAt(r)
		}
	}
}

func (t *rooms) lookAt(r *madeRoom) {
	limit, err := r.watch.look(r.watch.waited())
	if err != nil {
		limit = "unwatched"
	}
	if limit != "" {
		t.exceeded(r, limit)
	}
}

// overFor is how long a daemon may take to end a room that is over a limit.
const overFor = time.Second

func (t *rooms) exceeded(r *madeRoom, limit string) {
	r.over, r.watch.on = time.Now(), true
	t.keepLooking(everyDefault)
	t.report(cell.Report{Kind: cell.ReportOver, Room: r.id, Limit: limit, Usage: r.watch.usage(usage{})})
}

// initialPidNamespace is the kernel's fixed number of the machine's own pid namespace.
const initialPidNamespace = "pid:[4026531836]"

// checkPIDNamespace makes sure that with this process its rooms end and nothing else: it is process 1, and not the
// machine's.
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
// template. Those that Go's runtime made for itself stay: they are of types that no file has.
func tidy() error {
	_ = unix.CloseRange(cell.ControlFD+1, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("open descriptors: %w", err)
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return fmt.Errorf("open descriptors: %w", err)
		}
		var st unix.Stat_t
		if fd > cell.ControlFD && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}
