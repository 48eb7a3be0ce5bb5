package stage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
	"palyra/internal/layered"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
)

// list is what is to be done, as it is written down before the first step.
type list struct {
	Workspace string        `json:"workspace"`
	Dev       uint64        `json:"dev"`
	Ino       uint64        `json:"ino"`
	UID       int64         `json:"uid"`
	GID       int64         `json:"gid"`
	Boot      string        `json:"boot"`           // of the machine: content may be lost with it
	At        unix.Timespec `json:"at"`             // when it was written
	Since     unix.Timespec `json:"since"`          // changes from then on are others'
	Past      string        `json:"past,omitempty"` // where what is replaced goes, and its name there
	As        string        `json:"as,omitempty"`
	Call      string        `json:"call,omitempty"`  // whose changes they are
	Token     string        `json:"token,omitempty"` // temporary names come from it
	Steps     []steps.Step  `json:"steps"`
}

// keepWithin is how long a stage may take to be read and put into the workspace.
const keepWithin = 10 * time.Minute

// Keep makes the changes of a run the workspace's, once nothing of the run lives and if
// weigh (nil: always) says so.
// Either all of them are, or none: where somebody changes something in the
// middle, or a step fails, what was done is taken back. What cannot be is told as lost, and
// remembered, or, where that fails too, left to Recover. The stage stays to be dropped.
func (g *Stage) Keep(ctx context.Context, names Names, weigh Weigh) (Settled, error) {
	if g.beside != nil {
		return g.keepBoth(ctx, names, weigh)
	}
	return g.keep(ctx, names, weigh, false)
}

// keep is Keep for one stage. always: it is weighed and held even where nothing changed.
func (g *Stage) keep(ctx context.Context, names Names, weigh Weigh, always bool) (Settled, error) {
	g.lookNoMore()
	defer g.of.alone(g.root)()
	ctx, cancel := context.WithTimeout(ctx, keepWithin) // not counting the wait for others
	defer cancel()
	k := newCommitter(g, g.changesSince())
	r := &reader{Stage: g, ctx: ctx, names: names, since: k.Since, most: mostRead, later: true, firmly: map[string]firm{}}
	defer k.close()
	err := k.look(r)
	if err == nil && len(r.out.Conflicts) == 0 && (always || len(r.steps) > 0) {
		switch ruling := r.weighed(weigh, always); ruling {
		case RulingKeep, RulingLose:
			if len(r.steps) > 0 {
				err = k.keep(r, ruling)
			}
		case RulingHold:
			err = k.hold(r)
			r.out.Held = err == nil
		default:
			r.out.Dropped = true
		}
	}
	if g.files = r.files; err != nil { // they can be set aside all the same
		return r.out, fmt.Errorf("stage: keep: %w", err)
	}
	return r.out, nil
}

// Unfinished reports whether keeping stopped in the middle: Recover goes on with it.
func (g *Stage) Unfinished() bool { return g.partial }

// look reads the stage.
func (k *committer) look(r *reader) error {
	g := k.stage
	err := g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		r.upper, r.ws = k.Upper, k.Workspace
		r.out.Changed = g.swapped(k.Workspace)
		return r.all()
	})
	if err == nil {
		err = r.readAll()
	}
	err = errors.Join(err, r.shutAgain(&k.Worker))
	if err == nil { // else not all of it was seen
		r.out.Changes = r.seen.List()
	}
	return r.away(err) // the quarantine is the daemon's, not the owner's
}

// weighed asks about what was read. Whoever is asked and fails has not said that it is to be kept.
func (r *reader) weighed(weigh Weigh, always bool) (ruling Ruling) {
	if weigh == nil || !always && len(r.out.Changes) == 0 { // nothing is another one: times, at most
		return RulingKeep
	}
	defer func() {
		if p := recover(); p != nil {
			r.of.log.Error("the changes of a run could not be judged, and are dropped", "workspace", r.workspace, "err", p)
			ruling = RulingDrop
		}
	}()
	now := make(map[string]bool, len(r.out.Changes))
	for _, c := range r.out.Changes {
		now[c.Path] = c.Now.Kind != Nothing
	}
	return weigh(Found{
		Changes: r.out.Changes, NeverKept: r.refused, Replaced: r.stored(),
		Before: layered.Plain(r.ws), After: layered.With(r.ws, r.upper, now),
	})
}

// keep makes what was read the workspace's.
func (k *committer) keep(r *reader, ruling Ruling) error {
	g := k.stage
	if g.of.Admit != nil {
		refused, done := g.of.Admit(g.call, g.workspace, r.touched())
		defer done()
		if r.out.InUse, r.out.Conflicts = len(refused) > 0, refused[:min(len(refused), change.MostTold)]; r.out.InUse {
			return g.tell(r.out)
		}
	}
	if len(r.out.Changes) > 0 {
		k.unread = slices.ContainsFunc(r.out.Changes, func(c Change) bool { return c.Now.Kind == File && c.Now.Digest == "" })
		if err := k.remember(r, ruling == RulingLose); err != nil {
			r.out.Lost = err.Error()
			return g.tell(r.out)
		}
		if g.past != nil {
			defer g.past.Space().Settled(g.as)
		}
	} else { // nothing to be put back
		g.past = nil
	}
	if err := k.write(r.steps); err != nil {
		return err
	}
	err := g.asOwner(func() error { return k.Do(r.steps, 0, false) })
	if err != nil {
		err = k.takeBack(r.steps, err)
	}
	if err != nil && !errors.Is(err, steps.ErrNone) {
		g.partial, r.out.Lost = true, k.failed+"; some of them are in the workspace, and the next start of the daemon goes on with it"
		g.of.log.Error("the changes of a run are in its workspace in part", "workspace", g.workspace, "err", err)
		return nil
	}
	told := k.reportSteps(&r.out, r.steps, err)
	if r.out.Kept > 0 {
		g.of.flushSoon(g.workspace)
	}
	if told != nil {
		g.noWord(told)
		if r.out.Kept > 0 {
			g.partial = true // the next start leaves it
			return nil
		}
	}
	fault.Point("stage.kept/lost")
	err = beneath.Ignore(unix.Unlink(filepath.Join(g.path, listName)), unix.ENOENT)
	fault.Point("stage.kept/kept")
	return err
}

// flushAfter is how long nothing must have come into a workspace before it is flushed: what is kept meanwhile would wait.
const flushAfter = 2 * time.Second

// flushSoon has a workspace flushed once nothing more comes into it.
func (s *Stages) flushSoon(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.flushes[workspace]; t != nil {
		t.Reset(flushAfter) // one that has just begun is followed by another
		return
	}
	if s.flushes == nil {
		s.flushes = map[string]*time.Timer{}
	}
	s.flushes[workspace] = time.AfterFunc(flushAfter, func() {
		s.mu.Lock()
		delete(s.flushes, workspace)
		s.mu.Unlock()
		s.flush(workspace)
	})
}

// flush has the kernel write what came into a workspace to its disk: on a stage it ignores the programs' own requests.
func (s *Stages) flush(workspace string) {
	fd, err := unix.Open(workspace, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Syncfs(fd), unix.Close(fd))
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		s.log.Warn("changes that were kept may not be on the disk yet", "workspace", workspace, "err", err)
	}
}

// touched are the paths that keeping puts something else at, be it the same once more.
func (r *reader) touched() (paths []string) {
	for _, c := range r.out.Changes {
		paths = append(paths, c.Path)
	}
	for i := range r.steps {
		paths = append(paths, string(r.steps[i].Path))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// reportSteps says what became of the steps, leaves word of it, and remembers what they replaced.
func (k *committer) reportSteps(out *Settled, all []steps.Step, err error) error {
	if errors.Is(err, steps.ErrNone) {
		out.Conflicts, out.Lost = k.Left, k.failed
		for _, as := range k.Saved {
			out.Conflicts = change.AppendShort(out.Conflicts, as+" (somebody's, whose name was taken)")
		}
		return k.stage.tell(*out)
	}
	for _, is := range k.Stands {
		if is {
			out.Kept++
		}
	}
	switch {
	case k.failed != "":
		out.Lost = k.failed + "; what somebody worked on meanwhile stays"
	case len(k.Left) > 0:
		out.Lost = "somebody else changed these while the changes were put into the workspace, and theirs stay: " + strings.Join(k.Left, ", ")
	}
	if len(k.Saved) > 0 {
		out.Lost += "; what of theirs could not go back to its name is kept as " + strings.Join(k.Saved, ", ")
	}
	told := k.stage.tell(*out)
	if err := k.amend(all, out.Lost); err != nil {
		k.stage.of.log.Error("the files that a run replaced cannot be put back later", "workspace", k.stage.workspace, "err", err)
		return told
	}
	if out.Remembered = out.Kept > 0 && k.stage.archive(); out.Remembered { // which tells it too
		told = nil
	}
	if out.Lost == "" { // else there is something to be set aside
		k.stage.trimArchived()
	}
	return told
}

// all reads the whole stage.
func (r *reader) all() error {
	var st, now unix.Stat_t
	if err := errors.Join(unix.Fstat(r.upper, &st), unix.Fstat(r.ws, &now)); err != nil {
		return err
	}
	return r.merge("", &st, &now, scope{})
}

// committer does what a list says.
type committer struct {
	steps.Worker
	stage   *Stage
	file    *os.File // the list; its end counts the steps that are done
	counted int64    // where
	failed  string   // why the steps are taken back, where that is nobody's doing
	unread  bool     // there are files among the changes that were not read, or may be
}

// newCommitter is one for a stage; changes from since on are others'.
func newCommitter(g *Stage, since unix.Timespec) *committer {
	k := &committer{stage: g}
	k.Worker = steps.Worker{UID: g.id.UID, Entries: g.of.limits.Entries, Name: g.name, Since: since, Count: k.count}
	k.Upper, k.Workspace, k.Away, k.Spent = -1, -1, -1, -1
	return k
}

func (k *committer) open(workspace func() (int, error)) (err error) {
	if k.Workspace, err = workspace(); err != nil {
		return err
	}
	if k.Upper, err = k.stage.open(Upper); err != nil {
		return err
	}
	if k.Away, err = k.stage.open(preimage.Old); err != nil {
		return err
	}
	k.Spent, err = k.stage.open(Work)
	return err
}

func (k *committer) close() {
	k.Leave()
	for _, fd := range []int{k.Upper, k.Workspace, k.Away, k.Spent} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if k.file != nil {
		_ = k.file.Close()
	}
}

// write writes the list: whole under its name, or not at all.
func (k *committer) write(all []steps.Step) error {
	g := k.stage
	l := list{
		Workspace: g.workspace, Dev: g.root.Dev, Ino: g.root.Ino, UID: g.id.UID, GID: g.id.GID,
		Boot: boot(), Since: k.Since, Call: g.call, Token: rand.Text(), Steps: all,
	}
	k.Token = l.Token
	if g.past != nil {
		l.Past, l.As = g.past.Path(), g.as
	}
	if err := g.begin(); err != nil {
		return err
	}
	l.At = g.began
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if len(text) > mostList-64 {
		return tooMany("a list of %d bytes", len(text))
	}
	name := filepath.Join(g.path, listName)
	f, err := os.OpenFile(name+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600) // a daemon that died may have left one
	if err != nil {
		return err
	}
	k.file, k.counted = f, int64(len(text))
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	k.counted++
	fault.Point("stage.listed/lost")
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	fault.Point("stage.listed/kept")
	return nil
}

// count says that so many steps are done.
func (k *committer) count(n int) error {
	_, err := k.file.WriteAt(strconv.AppendInt(nil, int64(n), 10), k.counted)
	return err
}

// boot tells one start of the machine from another.
func boot() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// finish goes on with a list that an earlier daemon left. Where the machine was
// started anew since, the content may be lost, and nothing is kept.
func (s *Stages) finish(name string) error {
	file := filepath.Join(s.path, name, listName)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l, done, size, err := readList(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	g := &Stage{
		of: s, name: name, path: filepath.Join(s.path, name), workspace: l.Workspace, root: beneath.Ident{Dev: l.Dev, Ino: l.Ino},
		id: owner.Identity{UID: l.UID, GID: l.GID}, began: l.At,
	}
	if g.call, g.isHeld = strings.CutPrefix(name, heldPrefix); !g.isHeld {
		g.call = l.Call
	}
	if l.Boot != boot() {
		s.log.Error("the machine stopped while a run's changes were being kept; some are there, the rest is lost", "workspace", l.Workspace)
		return errors.Join(g.tell(Settled{Lost: "the machine stopped while they were being kept: some are there, the rest is lost"}), f.Close())
	}
	defer s.alone(g.root)()
	defer g.rememberIn(l)()
	k := newCommitter(g, l.Since)
	k.file, k.counted, k.Token, k.unread = f, size, l.Token, true
	defer k.close()
	err = k.resumeList(l.Steps, done)
	if errors.Is(err, errGone) {
		s.log.Error("the workspace of a run that was being kept is gone", "workspace", l.Workspace, "err", err)
		return g.tell(Settled{Lost: "the workspace is gone"})
	}
	if err == nil || errors.Is(err, steps.ErrNone) {
		var out Settled
		err = k.reportSteps(&out, l.Steps, err)
		g.trimArchived()
		s.log.Warn("the changes of a run that a crash interrupted are kept, or taken back where somebody else changed the same",
			"workspace", l.Workspace, "kept", out.Kept, "of", len(l.Steps), "left_to_others", k.Left, "saved_as", k.Saved)
	}
	return err
}

// resumeList goes on with an earlier daemon's steps: with doing them, or with taking them back.
func (k *committer) resumeList(all []steps.Step, done int) error {
	b, err := k.stage.readBack()
	if err != nil {
		return err
	}
	return k.stage.asOwner(func() error {
		if err := k.open(k.stage.openWorkspace); err != nil {
			return err
		}
		if b == nil {
			return k.Do(all, done, true)
		}
		k.Puts, k.Left, k.Saved, k.failed = b.Put, b.Left, b.Saved, b.Failed
		return k.Back(all, b.Done)
	})
}

// rememberIn goes on with putting what is replaced where the list says. A place that is not
// there any more hinders nobody. It returns what ends it.
func (g *Stage) rememberIn(l list) (done func()) {
	done = func() {}
	switch {
	case l.Past == "":
		return done
	case g.of.past != nil && g.of.past.Path() == l.Past:
		g.past = g.of.past
	default:
		p, err := preimage.Open(l.Past)
		if err != nil {
			g.of.log.Error("the files that a run replaced cannot be put back later", "workspace", l.Workspace, "err", err)
			return done
		}
		g.past, done = p, func() { _ = p.Close() }
	}
	g.as = l.As
	return done
}

// mostList bounds a list: steps of the longest paths that are kept.
const mostList = 256 << 20

// readList reads a list and how much of it is done.
func readList(r io.Reader) (l list, done int, size int64, err error) {
	text, err := io.ReadAll(io.LimitReader(r, mostList))
	if err != nil {
		return l, 0, 0, err
	}
	i := strings.IndexByte(string(text), '\n')
	if i < 0 {
		return l, 0, 0, errors.New("a list without an end")
	}
	if err := json.Unmarshal(text[:i], &l); err != nil {
		return l, 0, 0, err
	}
	if rest := string(text[i+1:]); rest != "" {
		if done, err = strconv.Atoi(rest); err != nil || done < 0 || done > len(l.Steps) {
			return l, 0, 0, errors.New("a list with a wrong count")
		}
	}
	return l, done, int64(i + 1), nil
}
