package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Template is a daemon's end of a template's socket: it asks for rooms, any number at once.
type Template struct {
	conn *Conn
	gone chan struct{} // closed when the template has no more to say

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer  // by room
	over    map[int]func(Report) // who hears of a room that is over a limit, or gone
	why     error                // it is gone for
	ready   chan answer
}

// answer is a report with the descriptors that came along.
type answer struct {
	Report
	files []*os.File
	err   error
}

// ErrTemplate means that a template is gone.
var ErrTemplate = errors.New("cell: the template is gone")

// NewTemplate takes over the socket of a template that was started.
func NewTemplate(c *Conn) *Template {
	t := &Template{
		conn: c, gone: make(chan struct{}), waiting: map[int]chan answer{}, over: map[int]func(Report){}, ready: make(chan answer, 1),
	}
	go t.listen()
	return t
}

// Ready waits until the template can make rooms.
func (t *Template) Ready(ctx context.Context) (Report, error) {
	a, err := t.await(ctx, t.ready)
	return a.Report, err
}

// Gone is closed when the template is gone.
func (t *Template) Gone() <-chan struct{} { return t.gone }

// Close ends the template with all its rooms.
func (t *Template) Close() error { return t.conn.Close() }

// listen passes reports on to whom they are for.
func (t *Template) listen() {
	defer close(t.gone)
	for {
		var a answer
		if a.files, a.err = t.conn.Recv(&a.Report); a.err != nil {
			t.end(a.err)
			return
		}
		t.mu.Lock()
		to, over := t.waiting[a.Room], t.over[a.Room]
		if a.Room == 0 {
			to = t.ready
		}
		news := a.Kind == ReportOver || a.Kind == ReportGone
		if !news {
			delete(t.waiting, a.Room)
		}
		if a.Kind == ReportGone { // there will be no more
			delete(t.over, a.Room)
		}
		t.mu.Unlock()
		switch {
		case news && over != nil:
			over(a.Report)
		case news:
		case to != nil:
			to <- a // it has room for one, and gets one
		default:
			CloseAll(a.files)
		}
	}
}

func (t *Template) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.why = err
	for _, to := range t.waiting {
		to <- answer{err: fmt.Errorf("%w: %w", ErrTemplate, err)}
	}
	clear(t.waiting)
	select {
	case t.ready <- answer{err: fmt.Errorf("%w: %w", ErrTemplate, err)}:
	default:
	}
}

func (t *Template) await(ctx context.Context, from <-chan answer) (answer, error) {
	select {
	case a := <-from:
		return a, a.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// ask sends an order about a room and waits for the answer. The room's number is only used again once it is answered:
// who gives up waiting loses what comes.
func (t *Template) ask(ctx context.Context, o Order, fds ...int) (answer, error) {
	to := make(chan answer, 1)
	t.mu.Lock()
	if t.why != nil {
		err := t.why
		t.mu.Unlock()
		return answer{}, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	t.waiting[o.Room] = to
	t.mu.Unlock()
	if err := t.conn.Send(o, fds...); err != nil {
		t.mu.Lock()
		delete(t.waiting, o.Room)
		t.mu.Unlock()
		return answer{}, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	a, err := t.await(ctx, to)
	if err != nil && ctx.Err() != nil {
		go func() { // what comes too late is nobody's
			select {
			case late := <-to:
				CloseAll(late.files)
			case <-t.gone:
			}
		}()
	}
	return a, err
}

// Made is a room that a template made.
type Made struct {
	Room   int
	First  *os.File   // pidfd of its first process
	Doors  []*os.File // sockets of its Listeners
	Copies []*os.File // mounts of its workspace
}

// Build has a room made: line is its first process's end of a socket, extra belongs to the Room's Extra. Both stay the
// caller's. A Report of the kind ReportFailed says why there is none.
func (t *Template) Build(ctx context.Context, r Room, line *os.File, extra []*os.File, over func(Report)) (Made, Report, error) {
	f, err := WriteRoom(r)
	if err != nil {
		return Made{}, Report{}, err
	}
	defer func() { _ = f.Close() }()
	fds := []int{int(f.Fd()), int(line.Fd())}
	for _, x := range extra {
		fds = append(fds, int(x.Fd()))
	}
	t.mu.Lock()
	t.last++
	id := t.last
	t.over[id] = over
	t.mu.Unlock()
	a, err := t.ask(ctx, Order{Kind: OrderBuild, Room: id}, fds...)
	switch {
	case err != nil, a.Kind == ReportFailed:
		CloseAll(a.files)
		t.forget(id)
		return Made{}, a.Report, err
	case a.Kind != ReportBuilt || a.Version != Version || len(a.files) != 1+len(r.Listeners)+r.Copies:
		CloseAll(a.files)
		t.forget(id)
		return Made{}, a.Report, fmt.Errorf("cell: a template that speaks another version answers %q with %d files", a.Kind, len(a.files))
	}
	doors := 1 + len(r.Listeners)
	return Made{Room: id, First: a.files[0], Doors: a.files[1:doors:doors], Copies: a.files[doors:]}, a.Report, nil
}

// Cover has a sealed program laid over its path in a room.
func (t *Template) Cover(ctx context.Context, room int, path string, program *os.File) (Report, error) {
	a, err := t.ask(ctx, Order{Kind: OrderCover, Room: room, Path: path}, int(program.Fd()))
	return a.Report, err
}

// CoverData has the content of a file laid over a path in a room, which must be a file that no link leads to. It can be read
// there and no more. below, if not empty, is a mount in which the path lies: the directories in between become mounts as
// well, which nobody in the room can rename.
func (t *Template) CoverData(ctx context.Context, room int, path, below string, content *os.File) (Report, error) {
	o := Order{Kind: OrderCover, Room: room, Path: path, Data: true, Below: below}
	a, err := t.ask(ctx, o, int(content.Fd()))
	return a.Report, err
}

// Watch has a room held to limits from now on.
func (t *Template) Watch(room int, w Watch) error {
	return t.conn.Send(Order{Kind: OrderWatch, Room: room, Watch: &w})
}

// forget hears no more of a room that was not made.
func (t *Template) forget(room int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.over, room)
}

// Send sends an order to which there is no answer.
func (t *Template) Send(o Order, fds ...int) error { return t.conn.Send(o, fds...) }

// Ask sends an order about a room and returns the answer; descriptors that come with it are closed.
func (t *Template) Ask(ctx context.Context, o Order, fds ...int) (Report, error) {
	a, err := t.ask(ctx, o, fds...)
	CloseAll(a.files)
	return a.Report, err
}
