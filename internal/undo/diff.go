package undo

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"znkr.io/diff"
	"znkr.io/diff/textdiff"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/rpc/wire"
	"palyra/internal/subpath"
)

// Bounds of a diff.
const (
	mostFile  = 1 << 20 // bytes of one file, before or after
	mostDiff  = 4 << 20 // bytes of all
	mostNotes = 100
	fastLines = 10_000 // from here on, of all files, a quicker and longer diff will do
)

// content is a file before and after.
type content struct {
	path          string
	was, is       bool // there was, and is, a file
	before, after []byte
	why           string // why it is not given
}

// Diff shows content before and after a call: of one path, of what is in a directory, or of all. What the call replaced
// is known only while that is kept, and what it left only while nobody changed it. Of changes that wait for an answer it is
// the workspace and what is held; of a call that has not run, what was shown of it.
func (u *Undo) Diff(ctx context.Context, c *palyra.Call, path palyra.PathText) (wire.ChangeDiff, error) {
	top := ""
	if path != "" {
		var err error
		if top, err = path.Name(); err != nil {
			return wire.ChangeDiff{}, palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, "the path cannot be read").
				WithRemedy("write it as 'palyra changes' shows it, below the workspace")
		}
	}
	d := u.differ(ctx, c.Plan.Workspace.Path)
	pick := func(p string) bool {
		if top != "" && !subpath.Within(top, p) {
			return false
		}
		d.picked++
		return true
	}
	switch shown := c.Detail.Diff; {
	case shown != "" && !ran(c) && top == "":
		d.text.WriteString(shown)
	case shown != "" && !ran(c):
		sections(shown, func(path, text string) {
			if pick(path) {
				d.text.WriteString(text)
			}
		})
	default:
		if err := u.contents(ctx, c, pick, d.add); err != nil {
			return wire.ChangeDiff{}, err
		}
	}
	if top != "" && d.picked == 0 {
		return wire.ChangeDiff{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the call changed no file %s", path).
			WithRemedy("'palyra changes %s' lists the paths that it changed", c.ID)
	}
	return d.done(), nil
}

// contents reads files that a call changed, or would change.
func (u *Undo) contents(ctx context.Context, c *palyra.Call, pick func(string) bool, f func(content) bool) error {
	if c.Plan.Staging.Review {
		return u.stagedContents(ctx, c, pick, f)
	}
	if _, became := c.Changed(); became == palyra.EffectsHeld && u.Kept != nil {
		if held, err := u.Kept.heldContents(ctx, string(c.ID), pick, mostFile, f); held || err != nil {
			return unreadableIf(err)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	k, err := u.keptOf(c.ID)
	if err != nil {
		return notKept(c, err)
	}
	if k.state == wire.UndoUndone {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "the call was undone: its changes are not there").
			WithRemedy("'palyra redo %s' takes that back", c.ID)
	}
	return unreadableIf(u.Kept.contents(ctx, string(c.ID), pick, mostFile, f))
}

// notKept says why the content that a call changed is not there, where more is known than err says.
func notKept(c *palyra.Call, err error) error {
	changed, became := c.Changed()
	switch {
	case palyra.CodeOf(err) != palyra.NotFound:
		return err
	case changed == nil:
		return explainNoChanges(c)
	case became == palyra.EffectsDropped || became == palyra.EffectsConflict:
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the changes of the call did not come into the workspace, and are gone").
			WithRemedy("'palyra changes %s' lists them; 'palyra calls show %s' says why", c.ID, c.ID)
	}
	return err
}

func unreadableIf(err error) error {
	if err == nil {
		return nil
	}
	return unreadable(err)
}

// differ makes a diff of several files.
type differ struct {
	text  strings.Builder
	notes []string
	more  int // notes
	lines int

	mask   *dotenv.Masker // of files whose secret values are not shown; nil: they are
	masks  dotenv.MaskedNow
	untold error // why nobody can tell which these are

	picked int  // files that were asked for
	full   bool // a diff did not fit any more
}

// differ shows files of a workspace.
func (u *Undo) differ(ctx context.Context, workspace string) *differ {
	d := &differ{notes: []string{}}
	if u.Masks.On(workspace) {
		m := u.Masks.In(workspace)
		d.mask = &m
		d.masks, d.untold = u.Masks.Now(ctx, workspace)
	}
	return d
}

func (d *differ) note(path, why string) {
	if len(d.notes) == mostNotes {
		d.more++
		return
	}
	d.notes = append(d.notes, fmt.Sprintf("%s is not shown: %s", palyra.TextOfPath(path), why))
}

// add shows one file.
func (d *differ) add(c content) bool {
	if d.full && d.more > 0 { // neither a diff nor a note has room: the rest is not read
		return false
	}
	switch {
	case c.why != "":
		d.note(c.path, c.why)
		return true
	case !text(c.before) || !text(c.after):
		d.note(c.path, "it is not text")
		return true
	case bytes.Equal(c.before, c.after) && c.was == c.is:
		return true
	}
	if d.untold != nil {
		d.note(c.path, dotenv.Why(d.untold))
		return true
	}
	if d.mask != nil && d.masks.Has(c.path, c.before, c.after) {
		c.before, c.after = d.mask.MaskBoth(c.path, c.before, c.after)
		d.notes = append(d.notes, fmt.Sprintf("secret values of %s are masked", palyra.TextOfPath(c.path)))
	}
	var how []textdiff.Option
	if d.lines += bytes.Count(c.before, []byte("\n")) + bytes.Count(c.after, []byte("\n")); d.lines > fastLines {
		how = append(how, diff.Fast())
	}
	body := textdiff.Unified(string(c.before), string(c.after), how...)
	if d.text.Len()+len(body) > mostDiff {
		d.note(c.path, "the diff is too long; ask for this path alone")
		d.full = true
		return true
	}
	from, to := "/dev/null", "/dev/null"
	if c.was {
		from = "a/" + c.path
	}
	if c.is {
		to = "b/" + c.path
	}
	fmt.Fprintf(&d.text, "--- %s\n+++ %s\n%s", palyra.TextOfPath(from), palyra.TextOfPath(to), body)
	if body != "" && !strings.HasSuffix(body, "\n") {
		d.text.WriteByte('\n')
	}
	return true
}

func text(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }

func (d *differ) done() wire.ChangeDiff {
	if d.more > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%d more, or still more, are not shown", d.more))
	}
	return wire.ChangeDiff{Diff: d.text.String(), Notes: d.notes}
}
