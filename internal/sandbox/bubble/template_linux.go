package bubble

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"palyra/internal/cell"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/cells"
)

// template is a room that bubblewrap built, in which nothing runs: the rooms of calls are made from it. It shows what a
// room of its kind shows, so it is used only while all of that is as it was.
type template struct {
	b     *Backend
	key   string
	cell  *cell.Template
	body  *body
	view  bwrap.View
	shows []identity // the files that it shows
	hides []string   // hidden paths of the system
	below []string   // mount points in the workspace
	made  time.Time

	mu    sync.Mutex
	users int
	used  time.Time
	old   bool // nobody gets it any more
}

// Limits of templates.
const (
	templateFor   = 10 * time.Minute // then another one takes its place
	mostTemplates = 16
)

// templates are those that can be used.
type templates struct {
	mu     sync.Mutex
	byKey  map[string]*template
	begun  map[string]chan struct{} // closed when the one under way is there, or is not
	closed bool
}

// get returns a template for a want, which the caller gives back. One that does not fit any more is replaced.
func (s *templates) get(ctx context.Context, b *Backend, w *want) (*template, error) {
	key := w.templateKey()
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, b.fleet.Stopping()
		}
		t, wait := s.byKey[key], s.begun[key]
		if t == nil && wait == nil {
			wait = make(chan struct{})
			s.begun[key] = wait
			s.mu.Unlock()
			return s.add(ctx, b, w, key, wait)
		}
		s.mu.Unlock()
		if t != nil {
			if t.fresh(w) && t.take() {
				return t, nil
			}
			s.drop(t)
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, notBegun(ctx)
		}
	}
}

// add makes a template that others wait for.
func (s *templates) add(ctx context.Context, b *Backend, w *want, key string, done chan struct{}) (*template, error) {
	t, err := b.newTemplate(ctx, w, key)
	s.mu.Lock()
	delete(s.begun, key)
	close(done)
	var away []*template
	if err == nil && !s.closed {
		for k, o := range s.byKey {
			if len(s.byKey) < mostTemplates {
				break
			}
			delete(s.byKey, k)
			away = append(away, o)
		}
		s.byKey[key] = t
	}
	closed := s.closed
	s.mu.Unlock()
	for _, o := range away {
		o.retire()
	}
	if err == nil && closed {
		t.give()
		t.retire()
		return nil, b.fleet.Stopping()
	}
	return t, err
}

// drop takes a template out.
func (s *templates) drop(t *template) {
	s.mu.Lock()
	if s.byKey[t.key] == t {
		delete(s.byKey, t.key)
	}
	s.mu.Unlock()
	t.retire()
}

// expire ends templates that nobody has used for a while.
func (s *templates) expire(now time.Time) {
	s.mu.Lock()
	var away []*template
	for k, t := range s.byKey {
		if t.idle(now) {
			delete(s.byKey, k)
			away = append(away, t)
		}
	}
	s.mu.Unlock()
	for _, t := range away {
		t.retire()
	}
}

// close ends all of them, each with its last room.
func (s *templates) close() {
	s.mu.Lock()
	s.closed = true
	all := s.byKey
	s.byKey = nil
	s.mu.Unlock()
	for _, t := range all {
		t.retire()
	}
}

// take counts a user; false: the template is old.
func (t *template) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.old {
		return false
	}
	t.users++
	t.used = time.Now()
	return true
}

// give ends a use.
func (t *template) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.end()
}

// retire ends the template when nobody uses it any more.
func (t *template) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old = true
	t.end()
}

func (t *template) end() {
	if t.old && t.users == 0 {
		_ = t.cell.Close() // it ends by that
	}
}

func (t *template) idle(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users == 0 && now.Sub(t.used) >= idleFor
}

// fresh reports whether the template is what a new one would be.
func (t *template) fresh(w *want) bool {
	select {
	case <-t.cell.Gone():
		return false
	default:
	}
	p, no := t.b.current()
	if no != nil || time.Since(t.made) > templateFor || !slices.Equal(t.hides, p.Places.Hidden()) || !slices.Equal(t.shows, w.identities()) {
		return false
	}
	view, err := p.View()
	if err != nil || view != t.view {
		return false
	}
	below, err := t.b.below(w.room.Workspace)
	return err == nil && slices.Equal(below, t.below)
}

// below lists the mount points in a directory.
func (b *Backend) below(dir string) ([]string, error) {
	text, err := b.mounts.Text()
	if err != nil {
		return nil, err
	}
	return bwrap.MountsBelow(text, dir), nil
}

// newTemplate has bubblewrap build one, as the workspace's owner. It is in none of the cgroups of runs.
func (b *Backend) newTemplate(ctx context.Context, w *want, key string) (*template, error) {
	p, no := b.current()
	if no != nil {
		return nil, no
	}
	t := &template{b: b, key: key, shows: w.identities(), hides: p.Places.Hidden(), made: time.Now(), used: time.Now(), users: 1}
	var err error
	if t.view, err = p.View(); err == nil {
		t.below, err = b.below(w.room.Workspace)
	}
	if err != nil {
		return nil, cells.SpawnFailed("what the system looks like cannot be told").WithCause(err)
	}
	if err := t.start(p, w); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, templateWithin)
	defer cancel()
	r, err := t.cell.Ready(ctx)
	switch {
	case err != nil:
		err = t.whyNot(ctx, w, err)
	case r.Kind == cell.ReportFailed:
		err = b.explain(r)
	case r.Version != cell.Version:
		err = cells.Unavailable("palyra-cell speaks another version").WithRemedy(cells.CellRemedy)
	}
	if err != nil {
		t.give()
		t.retire()
		return nil, err
	}
	return t, nil
}

// templateWithin is how long bubblewrap and the cell may take.
const templateWithin = 10 * time.Second

// start starts bubblewrap.
func (t *template) start(p *bwrap.Program, w *want) error {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		return err
	}
	mark := t.b.fleet.NewMark()
	if t.body, err = t.b.startBubblewrap(p, w, theirs, mark); err != nil {
		t.b.fleet.Forget(mark)
		_ = conn.Close()
		return err
	}
	t.cell = cell.NewTemplate(conn)
	t.b.fleet.Go(func() {
		<-t.cell.Gone()
		_ = t.cell.Close()
		late := time.AfterFunc(templateWithin, t.body.Kill)
		_ = t.body.Wait() // it ends with an error: its daemon left it
		late.Stop()
		t.b.fleet.Forget(mark)
	})
	return nil
}

// startBubblewrap runs bubblewrap as the workspace's owner.
func (b *Backend) startBubblewrap(p *bwrap.Program, w *want, control *os.File, mark uint64) (*body, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("bubble: start: %w", err)
	}
	defer func() { _ = null.Close() }()
	info, err := newInfo()
	if err != nil {
		return nil, fmt.Errorf("bubble: start: %w", err)
	}
	attr := bwrap.Attr(w.room.UID, w.room.GID)
	attr.Setsid = true
	start, err := p.Command(w.room, b.fleet.Image, control, info, markText(mark))
	if err == nil {
		defer start.Close()
		logs := b.fleet.Logs()
		var process *os.Process
		if process, err = os.StartProcess(start.Path, start.Argv, &os.ProcAttr{
			Dir: "/", Env: start.Env, Files: append([]*os.File{null, logs, logs}, start.Files...), Sys: attr,
		}); err == nil {
			return &body{bwrap: process, info: info, mark: mark}, nil
		}
		err = cells.SpawnFailed("bubblewrap cannot be started").WithCause(fmt.Errorf("bubble: start: %w", err))
	}
	_ = info.Close()
	return nil, err
}

// markText is the form of a mark on a cell's command line.
func markText(m uint64) string { return fmt.Sprintf("%016x", m) }

// whyNot finds out why there is no template: bubblewrap gives the reason only in the log.
func (t *template) whyNot(ctx context.Context, w *want, err error) error {
	return t.b.whyNot(ctx, w, t.hides, err)
}
