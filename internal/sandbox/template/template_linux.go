package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox/bwrap"
	"palyra/internal/sandbox/refusal"
)

// Template is a room that bubblewrap built, in which nothing runs: the rooms of calls are made from it. It shows what a
// room of its kind shows, so it is used only while all of that is as it was.
type Template struct {
	*cell.Template
	Hides []string // hidden paths of the system

	set   *Set
	key   string
	body  *body
	view  bwrap.View
	shows []identity // the files that it shows
	below []string   // mount points in the workspace
	made  time.Time

	mu    sync.Mutex
	users int
	used  time.Time
	old   bool // nobody gets it any more
}

// Limits of templates.
const (
	lasts = 10 * time.Minute // then another one takes its place
	most  = 16
	// Idle is for how long one stays that nobody uses.
	Idle = time.Minute
)

// Fleet is what templates need of whoever looks after all cells of a tier.
type Fleet interface {
	NewMark() uint64          // of a cell of this daemon
	Forget(mark uint64)       // that of one that has ended
	Foreign(mark uint64) bool // it is of this state and of an earlier daemon
	Logs() *os.File           // where cells may complain
	Go(do func())             // in the background; the fleet's end waits for it
	Stopping() *palyra.Error
}

// Set are the templates of a backend.
type Set struct {
	config Config
	mounts bwrap.Mounts

	mu     sync.Mutex
	byKey  map[string]*Template
	begun  map[string]chan struct{} // closed when the one under way is there, or is not
	closed bool

	mounted string              // the mounts of which inside is
	inside  map[string][]string // mount points by the directory that they are in
}

// Config is what a Set needs.
type Config struct {
	Fleet      Fleet
	Cell       func() *os.File                        // palyra-cell
	Bubblewrap func() (*bwrap.Program, *palyra.Error) // the one to use
	Log        *slog.Logger
}

// NewSet returns no templates yet.
func NewSet(c Config) *Set {
	return &Set{config: c, byKey: map[string]*Template{}, begun: map[string]chan struct{}{}}
}

// keyOf is equal for rooms that can be made from one template.
func keyOf(r bwrap.Room) string {
	pack := string(r.Pack.Digest) + r.Pack.At
	b, _ := json.Marshal([]any{r.UID, r.GID, r.Workspace, r.Repository, r.Mounts, r.Files, r.Tmp, r.Stages, pack}) // plain values cannot fail
	return string(b)
}

// Get returns a template for a room, which the caller gives back. One that does not fit any more is replaced.
func (s *Set) Get(ctx context.Context, r bwrap.Room) (*Template, error) {
	key := keyOf(r)
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, s.config.Fleet.Stopping()
		}
		t, wait := s.byKey[key], s.begun[key]
		if t == nil && wait == nil {
			wait = make(chan struct{})
			s.begun[key] = wait
			s.mu.Unlock()
			return s.add(ctx, r, key, wait)
		}
		s.mu.Unlock()
		if t != nil {
			if t.Fresh(r) && t.take() {
				return t, nil
			}
			s.drop(t)
			continue
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, refusal.NotBegun(ctx)
		}
	}
}

// add makes a template that others wait for.
func (s *Set) add(ctx context.Context, r bwrap.Room, key string, done chan struct{}) (*Template, error) {
	t, err := s.make(ctx, r, key)
	s.mu.Lock()
	delete(s.begun, key)
	close(done)
	var away []*Template
	if err == nil && !s.closed {
		for k, o := range s.byKey {
			if len(s.byKey) < most {
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
		t.Give()
		t.retire()
		return nil, s.config.Fleet.Stopping()
	}
	return t, err
}

// drop takes a template out.
func (s *Set) drop(t *Template) {
	s.mu.Lock()
	if s.byKey[t.key] == t {
		delete(s.byKey, t.key)
	}
	s.mu.Unlock()
	t.retire()
}

// Expire ends templates that nobody has used for a while.
func (s *Set) Expire(now time.Time) {
	s.mu.Lock()
	var away []*Template
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

// Close ends all of them, each with its last room, and makes no more.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	all := s.byKey
	s.byKey = nil
	s.mu.Unlock()
	for _, t := range all {
		t.retire()
	}
	return s.mounts.Close()
}

// take counts a user; false: the template is old.
func (t *Template) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.old {
		return false
	}
	t.users++
	t.used = time.Now()
	return true
}

// Give ends a use.
func (t *Template) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.end()
}

// retire ends the template when nobody uses it any more.
func (t *Template) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.old = true
	t.end()
}

func (t *Template) end() {
	if t.old && t.users == 0 {
		_ = t.Template.Close() // it ends by that
	}
}

func (t *Template) idle(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.users == 0 && now.Sub(t.used) >= Idle
}

// Fresh reports whether the template is what a new one for that room would be.
func (t *Template) Fresh(r bwrap.Room) bool {
	select {
	case <-t.Gone():
		return false
	default:
	}
	p, no := t.set.config.Bubblewrap()
	if no != nil || time.Since(t.made) > lasts || !slices.Equal(t.Hides, p.Places.Hidden()) || !slices.Equal(t.shows, identities(r)) {
		return false
	}
	view, err := p.View()
	if err != nil || view != t.view {
		return false
	}
	below, err := t.set.Below(r.Workspace)
	return err == nil && slices.Equal(below, t.below)
}

// Below lists the mount points in a directory, as they are now. Nobody changes the list.
func (s *Set) Below(dir string) ([]string, error) {
	text, err := s.mounts.Text()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != s.mounted || len(s.inside) >= mostInside {
		s.mounted, s.inside = text, map[string][]string{}
	}
	points, known := s.inside[dir]
	if !known {
		points = bwrap.MountsBelow(text, dir)
		s.inside[dir] = points
	}
	return points, nil
}

// mostInside is how many directories are remembered with what is mounted in them.
const mostInside = 256

// make has bubblewrap build one, as the workspace's owner. It is in none of the cgroups of runs.
func (s *Set) make(ctx context.Context, r bwrap.Room, key string) (*Template, error) {
	p, no := s.config.Bubblewrap()
	if no != nil {
		return nil, no
	}
	t := &Template{set: s, key: key, shows: identities(r), Hides: p.Places.Hidden(), made: time.Now(), used: time.Now(), users: 1}
	var err error
	if t.view, err = p.View(); err == nil {
		t.below, err = s.Below(r.Workspace)
	}
	if err != nil {
		return nil, refusal.SpawnFailed("what the system looks like cannot be told").WithCause(err)
	}
	if err := t.start(p, r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	said, err := t.Ready(ctx)
	switch {
	case err != nil:
		err = s.WhyNot(ctx, r, t.Hides, err)
	case said.Kind == cell.ReportFailed:
		err = refusal.NotStarted(said)
	case said.Version != cell.Version:
		err = refusal.Unavailable("palyra-cell speaks another version").WithRemedy(refusal.CellRemedy)
	}
	if err != nil {
		t.Give()
		t.retire()
		return nil, err
	}
	return t, nil
}

// within is how long bubblewrap and the cell may take.
const within = 10 * time.Second

// start starts bubblewrap.
func (t *Template) start(p *bwrap.Program, r bwrap.Room) error {
	ours, theirs, err := cell.Pair()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }()
	conn, err := cell.NewConn(ours)
	if err != nil {
		return err
	}
	mark := t.set.config.Fleet.NewMark()
	if t.body, err = t.set.startBubblewrap(p, r, theirs, mark); err != nil {
		t.set.config.Fleet.Forget(mark)
		_ = conn.Close()
		return err
	}
	t.Template = cell.NewTemplate(conn)
	t.set.config.Fleet.Go(func() {
		<-t.Gone()
		_ = t.Template.Close()
		late := time.AfterFunc(within, t.body.Kill)
		_ = t.body.Wait() // it ends with an error: its daemon left it
		late.Stop()
		t.set.config.Fleet.Forget(mark)
	})
	return nil
}

// startBubblewrap runs bubblewrap as the workspace's owner.
func (s *Set) startBubblewrap(p *bwrap.Program, r bwrap.Room, control *os.File, mark uint64) (*body, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("template: start: %w", err)
	}
	defer func() { _ = null.Close() }()
	info, err := newInfo()
	if err != nil {
		return nil, fmt.Errorf("template: start: %w", err)
	}
	attr := bwrap.Attr(r.UID, r.GID)
	attr.Setsid = true
	start, err := p.Command(r, s.config.Cell(), control, info, MarkText(mark))
	if err == nil {
		defer start.Close()
		logs := s.config.Fleet.Logs()
		var process *os.Process
		if process, err = os.StartProcess(start.Path, start.Argv, &os.ProcAttr{
			Dir: "/", Env: start.Env, Files: append([]*os.File{null, logs, logs}, start.Files...), Sys: attr,
		}); err == nil {
			return &body{bwrap: process, info: info, mark: mark}, nil
		}
		err = refusal.SpawnFailed("bubblewrap cannot be started").WithCause(fmt.Errorf("template: start: %w", err))
	}
	_ = info.Close()
	return nil, err
}

// identity identifies the file at a path.
type identity struct{ dev, ino uint64 }

// identities returns those of the places that a room shows. If one changes, the place is not what
// the plan meant any more.
func identities(r bwrap.Room) []identity {
	out := make([]identity, 0, 2+len(r.Mounts))
	look := func(path string, do func(string, *unix.Stat_t) error) {
		var st unix.Stat_t
		if do(path, &st) != nil {
			st = unix.Stat_t{}
		}
		out = append(out, identity{uint64(st.Dev), st.Ino})
	}
	look(r.Workspace, unix.Lstat)
	if r.Repository.Path != "" {
		look(r.Repository.Path, unix.Lstat)
	}
	for _, m := range r.Mounts {
		look(m.Source, unix.Stat)
	}
	return out
}

// ErrChanged means that the workspace differs from its scan, or the host from what was known of it: another try may
// succeed.
var ErrChanged = errors.New("sandbox: what was looked at has changed")

// WhyNot finds out why a room or its template was not built: bubblewrap gives the reason only in the log.
func (s *Set) WhyNot(ctx context.Context, r bwrap.Room, hides []string, err error) error {
	if ctx.Err() != nil {
		return refusal.NotBegun(ctx)
	}
	p, no := s.config.Bubblewrap()
	if no == nil && p.Places.Again(hides) { // bubblewrap cannot cover a path that is gone
		return refusal.SpawnFailed("/opt or /usr/local changed while the room was built").
			WithRemedy("try again when nobody changes them").WithCause(errors.Join(ErrChanged, err))
	}
	if no == nil {
		no = p.Try(ctx, r.UID, r.GID)
	}
	if no != nil {
		return no
	}
	if palyra.AsError(err).Reason != palyra.ReasonSpawnFailed {
		err = refusal.SpawnFailed("the room could not be built").WithCause(err)
	}
	return err
}
