package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/beneath"
	"palyra/internal/change"
	"palyra/internal/fault"
	"palyra/internal/owner"
	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
	"palyra/internal/subpath"
)

const (
	heldName   = "held"     // the file that says what waits on a stage
	heldPrefix = "held."    // of the directories of such stages, before the call's name
	wordPrefix = "settled." // of the files that say what became of a call's changes, likewise
)

// firm is what Names said of a path.
type firm struct{ sealed, kept bool }

// held is a stage that waits, as it is written down: all that reading it again needs.
type held struct {
	Version   int            `json:"version"`
	Call      string         `json:"call"`
	Workspace string         `json:"workspace"`
	Dev       uint64         `json:"dev"`
	Ino       uint64         `json:"ino"`
	Upper     uint64         `json:"upper"` // the device that the stage lies on
	UID       int64          `json:"uid"`
	GID       int64          `json:"gid"`
	Boot      string         `json:"boot"` // of the machine: devices may have other numbers after the next
	At        time.Time      `json:"at"`
	Since     unix.Timespec  `json:"since"` // changes from then on are others'
	Payer     string         `json:"payer,omitempty"`
	Bytes     int64          `json:"bytes"` // as they are counted
	Firm      []heldFirm     `json:"firm,omitempty"`
	Bound     []heldBound    `json:"bound,omitempty"`
	Parents   []heldParent   `json:"parents,omitempty"`
	Shut      []heldParent   `json:"shut,omitempty"`    // directories of the stage that are opened to be read
	Stirred   []beneath.Mark `json:"stirred,omitempty"` // directories of the workspace that were opened to be read, and shut again
	Steps     []steps.Step   `json:"steps"`
	Changes   []heldChange   `json:"changes"`
}

type heldFirm struct {
	Path   []byte `json:"path"`
	Sealed bool   `json:"sealed,omitempty"`
	Kept   bool   `json:"kept,omitempty"`
}

type heldBound struct {
	Path   []byte       `json:"path"`
	Digest string       `json:"digest,omitempty"`
	Link   []byte       `json:"link,omitempty"`
	Copy   beneath.Mark `json:"copy,omitzero"`
	Source beneath.Mark `json:"source,omitzero"`
}

type heldParent struct {
	Path []byte `json:"path"`
	Mode uint32 `json:"mode"`
}

type heldChange struct {
	Path []byte `json:"path"`
	Was  State  `json:"was"`
	Now  State  `json:"now"`
}

// Assign says whose call the run of the stage is: its changes can then be held.
func (g *Stage) Assign(call string) error {
	if !subpath.PlainID(call) {
		return fmt.Errorf("stage: assign: %q is no name", call)
	}
	g.call = call
	if g.beside != nil {
		return g.beside.Assign(call + besideSuffix)
	}
	return nil
}

// hold writes down what was read and gives the stage its call's name. What a run wrote is
// flushed first: it is there after the machine stopped, or the stage is not.
func (k *committer) hold(r *reader) error {
	g := k.stage
	if g.call == "" {
		return errors.New("a stage without a call cannot be held")
	}
	if !g.of.sizes.Hold(g.name, g.payer, r.weight()) {
		return tooMuchHeld(g.of.limits.All)
	}
	if err := g.asOwner(r.relock); err != nil {
		return err
	}
	text, err := json.Marshal(k.held(r))
	if err != nil {
		return err
	}
	if len(text) > mostList {
		return tooMany("a list of %d bytes", len(text))
	}
	if err := g.writeDurably(heldName, text); err != nil {
		return err
	}
	dir := int(g.of.dir.Fd())
	if err := unix.Syncfs(dir); err != nil {
		return err
	}
	fault.Point("stage.held/lost")
	name := heldPrefix + g.call
	if err := unix.Renameat2(dir, g.name, dir, name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if err := unix.Fsync(dir); err != nil {
		return err
	}
	fault.Point("stage.held/kept")
	g.of.sizes.Fix(name, g.payer, r.weight())
	g.of.use(g.name, false)
	g.name, g.path, g.isHeld = name, filepath.Join(g.of.path, name), true
	return nil
}

// weight is what a stage is counted as.
func (r *reader) weight() int64 { return r.bytes + int64(r.count)*nameBytes }

func (k *committer) held(r *reader) held {
	g := k.stage
	h := held{
		Version: 1, Call: g.call, Workspace: g.workspace, Dev: g.root.Dev, Ino: g.root.Ino, UID: g.id.UID, GID: g.id.GID,
		Boot: boot(), At: time.Now().UTC(), Since: k.Since, Payer: g.payer, Bytes: r.weight(), Steps: r.steps,
	}
	if st, missing, err := beneath.LookAt(int(g.of.dir.Fd()), g.name); err == nil && !missing {
		h.Upper = uint64(st.Dev)
	}
	for _, p := range slices.Sorted(maps.Keys(r.firmly)) {
		h.Firm = append(h.Firm, heldFirm{[]byte(p), r.firmly[p].sealed, r.firmly[p].kept})
	}
	for _, p := range slices.Sorted(maps.Keys(g.placed)) {
		b := g.placed[p]
		h.Bound = append(h.Bound, heldBound{[]byte(p), b.Digest, []byte(b.Link), b.copy, b.source})
	}
	for _, p := range slices.Sorted(maps.Keys(g.parents)) {
		h.Parents = append(h.Parents, heldParent{[]byte(p), g.parents[p]})
	}
	h.Stirred = slices.Collect(maps.Keys(r.stirs))
	for _, d := range r.unlocked {
		h.Shut = append(h.Shut, heldParent{[]byte(d.path), d.mode})
	}
	for _, c := range r.out.Changes {
		h.Changes = append(h.Changes, heldChange{[]byte(c.Path), c.Was, c.Now})
	}
	return h
}

// writeDurably writes a file of the stage that is there after the machine stopped.
func (g *Stage) writeDurably(name string, text []byte) error {
	return beneath.WriteWhole(filepath.Join(g.path, name), text, true)
}

// writeWhole writes a file of the stage: whole under its name, or not at all.
func (g *Stage) writeWhole(name string, text []byte) error {
	return beneath.WriteWhole(filepath.Join(g.path, name), text, false)
}

// noWord says that there is none of what became of a call's changes. Whoever asked is told all the same.
func (g *Stage) noWord(err error) {
	g.of.log.Error("there is no word of what became of a run's changes", "workspace", g.workspace, "err", err)
}

// tell leaves word what became of the changes of a call: whoever has to put that on record may ask after a crash.
// What is held outlives the machine's stop, and so does the word.
func (g *Stage) tell(out Settled) error {
	if g.call == "" {
		return nil
	}
	out.Changes = nil // on record, and many
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return beneath.WriteWhole(filepath.Join(g.of.path, wordPrefix+g.call), text, g.isHeld)
}

// Forget removes the word of what became of a call's changes, once that is on record.
func (s *Stages) Forget(call string) {
	if !subpath.PlainID(call) {
		return
	}
	word := wordPrefix + call
	for _, name := range []string{word, word + ".new", word + besideSuffix, word + besideSuffix + ".new"} {
		if err := beneath.Ignore(unix.Unlinkat(int(s.dir.Fd()), name, 0), unix.ENOENT); err != nil {
			s.log.Warn("the word of what became of a run's changes could not be removed", "call", call, "err", err)
		}
	}
}

// Held reports whether the changes of a call's run wait to be settled.
func (s *Stages) Held(call string) bool {
	_, missing, err := beneath.LookAt(int(s.dir.Fd()), heldPrefix+call+"/"+heldName)
	return subpath.PlainID(call) && err == nil && !missing
}

// DropHeld removes the held stages of calls that nobody waits for, and the words of what became of others.
func (s *Stages) DropHeld(ctx context.Context, waits func(call string) bool) error {
	names, err := s.names()
	if err != nil {
		return fmt.Errorf("stage: drop held: %w", err)
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if call, ok := strings.CutPrefix(strings.TrimSuffix(name, ".new"), wordPrefix); ok && !waits(ofCall(call)) {
			s.Forget(ofCall(call))
		}
		if call, ok := strings.CutPrefix(name, heldPrefix); ok && subpath.PlainID(call) && !waits(ofCall(call)) && s.takeHeld(call) {
			s.discard(name)
		}
	}
	return nil
}

// takeHeld has nobody else work on a held stage. Whoever took it gives it back by use or discard.
func (s *Stages) takeHeld(call string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := heldPrefix + call
	if s.live[name] {
		return false
	}
	s.live[name] = true
	return true
}

// ErrBusy means that somebody else settles the same stage.
var ErrBusy = errors.New("stage: the changes are being settled")

// Settle makes the changes of a held stage the workspace's, or forgets them, as the ruling is. It can be asked again,
// and says what became of them, for as long as that is known; else the error is a
// NotHeldError. What is not kept against the ruling is shown to aside (nil: nobody) before it goes. New paths that must
// not come to be go to q (nil: there are none).
func (s *Stages) Settle(
	ctx context.Context, call string, ruling Ruling, q Quarantine, aside func(*Stage, *Settled),
) (Settled, error) {
	out, err := s.settle(ctx, call, ruling, q, aside)
	if err == nil {
		err = s.settleBeside(ctx, call, ruling, &out)
	}
	return out, err
}

// settle is Settle for one stage.
func (s *Stages) settle(
	ctx context.Context, call string, ruling Ruling, q Quarantine, aside func(*Stage, *Settled),
) (Settled, error) {
	if !subpath.PlainID(call) {
		return Settled{}, &NotHeldError{call}
	}
	if !s.takeHeld(call) {
		return Settled{}, ErrBusy
	}
	name := heldPrefix + call
	defer s.use(name, false)
	if err := s.finish(name); err != nil { // somebody began to keep them: that goes on
		return Settled{}, fmt.Errorf("stage: settle: %w", err)
	}
	s.dropSettled(call)
	if out, known := s.told(call); known {
		return out, nil
	}
	h, err := s.readHeld(call)
	if errors.Is(err, os.ErrNotExist) {
		return Settled{}, &NotHeldError{call}
	}
	if err != nil {
		return Settled{}, fmt.Errorf("stage: settle: %w", err)
	}
	fault.Point("stage.settle/lost")
	if ruling != RulingKeep && ruling != RulingLose {
		s.discard(name)
		return Settled{Changes: h.changes(), Dropped: true}, nil
	}
	g, err := s.openHeld(h)
	if err != nil {
		return Settled{}, fmt.Errorf("stage: settle: %w", err)
	}
	g.Guard(q)
	out, err := g.keepHeld(ctx, h, ruling, aside)
	if err != nil {
		return out, fmt.Errorf("stage: settle: %w", err)
	}
	return out, nil
}

// told is what became of the changes of a call, as far as it is known.
func (s *Stages) told(call string) (out Settled, known bool) {
	text, err := os.ReadFile(filepath.Join(s.path, wordPrefix+call))
	if err == nil && json.Unmarshal(text, &out) == nil {
		return out, true
	}
	if s.past == nil {
		return out, false
	}
	m, err := s.past.Read(call)
	if err != nil {
		return out, false
	}
	for _, c := range m.Changes {
		out.Changes = append(out.Changes, Change{Path: string(c.Path), Was: c.Was, Now: c.Now})
	}
	out.Kept, out.Remembered, out.Lost = len(m.Changes), true, m.Lost
	return out, true
}

func (s *Stages) readHeld(call string) (h held, err error) {
	fd, err := beneath.OpenAt2(int(s.dir.Fd()), heldPrefix+call+"/"+heldName, unix.O_RDONLY|unix.O_NOFOLLOW, beneath.Resolve)
	if err != nil {
		return h, err
	}
	f := os.NewFile(uintptr(fd), heldName)
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, mostList+1))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	if h.Version != 1 || h.Call != call {
		return h, fmt.Errorf("version %d of call %q", h.Version, h.Call)
	}
	return h, nil
}

// HeldContents is preimage.Store.Contents for a stage that is held: the workspace is what was, and the stage what would be.
// What is held of a repository outside follows. No changes of the call are held: a NotHeldError.
func (s *Stages) HeldContents(ctx context.Context, call string, pick func(Change) bool, most int64, f func(preimage.Content) bool) error {
	more := true
	err := s.heldContents(ctx, call, pick, most, func(c preimage.Content) bool { more = f(c); return more })
	if err != nil || !more || !s.Held(call+besideSuffix) {
		return err
	}
	return s.heldContents(ctx, call+besideSuffix, func(c Change) bool { return pick(besideChange(c)) }, most, func(c preimage.Content) bool {
		c.Change = besideChange(c.Change)
		return f(c)
	})
}

// heldContents is HeldContents for one stage.
func (s *Stages) heldContents(ctx context.Context, call string, pick func(Change) bool, most int64, f func(preimage.Content) bool) error {
	if !subpath.PlainID(call) {
		return &NotHeldError{call}
	}
	h, err := s.readHeld(call)
	if errors.Is(err, os.ErrNotExist) {
		return &NotHeldError{call}
	}
	if err != nil {
		return fmt.Errorf("stage: held contents: %w", err)
	}
	upper, err := beneath.OpenAt2(int(s.dir.Fd()), heldPrefix+call+"/"+Upper, unix.O_PATH|unix.O_DIRECTORY, beneath.Resolve)
	if err != nil {
		return fmt.Errorf("stage: held contents: %w", err)
	}
	defer func() { _ = unix.Close(upper) }()
	return owner.Do(owner.Identity{UID: h.UID, GID: h.GID}, func() error {
		ws, err := beneath.OpenTree(h.Workspace)
		if err != nil {
			return errors.Join(errGone, err)
		}
		defer func() { _ = unix.Close(ws) }()
		all := preimage.Pair{
			Before: ws, After: upper, Most: most,
			WasNot: "somebody changed it since, or it cannot be read", IsNot: "it cannot be read",
		}
		for _, c := range h.changes() {
			find := func() (string, error) { return c.Path, nil }
			if more, err := all.Read(ctx, c, find, pick, f); err != nil || !more {
				return err
			}
		}
		return nil
	})
}

func (h *held) changes() []Change {
	out := make([]Change, 0, len(h.Changes))
	for _, c := range h.Changes {
		out = append(out, Change{Path: string(c.Path), Was: c.Was, Now: c.Now})
	}
	return out
}

// openHeld is the stage as it was when it was held.
func (s *Stages) openHeld(h held) (*Stage, error) {
	name := heldPrefix + h.Call
	g := &Stage{
		of: s, name: name, path: filepath.Join(s.path, name), workspace: h.Workspace, root: beneath.Ident{Dev: h.Dev, Ino: h.Ino},
		id: owner.Identity{UID: h.UID, GID: h.GID}, call: h.Call, isHeld: true, at: time.Now(),
		placed: map[string]placed{}, parents: map[string]uint32{},
	}
	for _, b := range h.Bound {
		g.placed[string(b.Path)] = placed{Bound{string(b.Path), b.Digest, string(b.Link)}, b.Copy, b.Source}
	}
	for _, p := range h.Parents {
		g.parents[string(p.Path)] = p.Mode
	}
	if s.past != nil && ofCall(h.Call) == h.Call { // nothing undoes a repository outside
		if err := g.Remember(s.past, h.Call); err != nil {
			return nil, err
		}
	}
	if h.Boot != boot() { // devices may be counted otherwise now; the workspace is the one of that name and number
		if err := g.renumber(h); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(g.path, markName), os.O_RDWR|unix.O_NOFOLLOW, 0)
	g.clock = f
	return g, err
}

// renumber gives what was written down the numbers that devices have now.
func (g *Stage) renumber(h held) error {
	top, missing, err := beneath.LookAt(int(g.of.dir.Fd()), g.name)
	if err != nil || missing {
		return errors.Join(err, errIf(missing, unix.ENOENT))
	}
	var ws unix.Stat_t
	if err := unix.Lstat(g.workspace, &ws); err != nil {
		return errors.Join(errGone, err)
	}
	old := g.root.Dev
	g.root.Dev = uint64(ws.Dev)
	swap := func(dev *uint64) {
		switch *dev {
		case old:
			*dev = uint64(ws.Dev)
		case h.Upper:
			*dev = uint64(top.Dev)
		}
	}
	for p, b := range g.placed {
		swap(&b.copy.Dev)
		swap(&b.source.Dev)
		g.placed[p] = b
	}
	for i := range h.Steps {
		if m := h.Steps[i].Was; m != nil {
			swap(&m.Dev)
		}
		if n := h.Steps[i].New; n != nil {
			swap(&n[0])
		}
	}
	return nil
}

// keepHeld is Keep for a stage that was held.
func (g *Stage) keepHeld(ctx context.Context, h held, ruling Ruling, aside func(*Stage, *Settled)) (Settled, error) {
	defer g.of.alone(g.root)()
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	k := newCommitter(g, h.Since)
	r := &reader{Stage: g, ctx: ctx, since: h.Since, most: mostRead, later: true, again: true, firmly: map[string]firm{}}
	for _, f := range h.Firm {
		r.firmly[string(f.Path)] = firm{f.Sealed, f.Kept}
	}
	r.shutBefore(h.Shut)
	r.stirs = map[beneath.Mark]bool{}
	for _, m := range h.Stirred {
		r.stirs[m] = true
	}
	defer g.Drop()
	defer k.close()
	err := k.look(r)
	switch {
	case err != nil:
	case len(r.out.Conflicts) > 0:
	default:
		r.out.Conflicts, r.out.Lost = r.differing(h)
	}
	if err == nil && len(r.out.Conflicts) == 0 && r.out.Lost == "" {
		err = k.keep(r, ruling)
	}
	if err != nil {
		return r.out, err
	}
	r.out.Changes, g.files = h.changes(), r.files
	if aside != nil && (len(r.out.Conflicts) > 0 || r.out.Lost != "") && !g.partial {
		aside(g, &r.out)
	}
	err = g.tell(r.out)
	if fullDisk(err) && !g.partial { // the stage is not needed any more, and makes room
		g.of.discard(g.name)
		err = g.tell(r.out)
	}
	if err != nil {
		g.noWord(err)
	}
	return r.out, nil
}

// differing says what is not as it was weighed: what others did in the workspace is a
// conflict, and a stage that is another one is lost.
func (r *reader) differing(h held) (conflicts []string, lost string) {
	was := map[string]Change{}
	for _, c := range h.changes() {
		was[c.Path] = c
	}
	todo := map[string]bool{}
	for i := range h.Steps {
		todo[h.Steps[i].Key()] = true
	}
	for i := range r.steps {
		if s := &r.steps[i]; !todo[s.Key()] {
			conflicts = change.AppendShort(conflicts, change.Quoted(string(s.Path)))
		}
		delete(todo, r.steps[i].Key())
	}
	var strange []string
	for _, c := range r.out.Changes {
		before, known := was[c.Path]
		delete(was, c.Path)
		switch {
		case !known || before.Now != c.Now:
			strange = change.AppendShort(strange, change.Quoted(c.Path))
		case before.Was != c.Was:
			conflicts = change.AppendShort(conflicts, change.Quoted(c.Path))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(was)) { // somebody did the same
		conflicts = change.AppendShort(conflicts, change.Quoted(p))
	}
	slices.Sort(conflicts)
	conflicts = slices.Compact(conflicts)
	switch {
	case len(strange) > 0:
		return nil, "they are not what was weighed any more: " + strings.Join(strange, ", ")
	case len(conflicts) == 0 && len(todo) > 0:
		return nil, "they are not what was weighed any more"
	}
	return conflicts, ""
}
