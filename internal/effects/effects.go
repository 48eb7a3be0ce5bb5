// Package effects writes and reads the list of what a run changed.
//
// Words: a change is one path that is another one after a run; the effects of a run are
// its changes in short, with the digest of the list that names them.
//
// Promises: equal changes give equal bytes. A list that is read is the one whose digest was recorded, and what was
// counted is in it; what is over the bounds is counted, and the effects say how much that is.
//
// It neither finds changes nor keeps lists.
package effects

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"

	"palyra"
	"palyra/internal/canon"
)

// KindOf says what happened to a path.
func KindOf(was, now *palyra.PathState) palyra.ChangeKind {
	switch {
	case was == nil:
		return palyra.ChangeCreated
	case now == nil:
		return palyra.ChangeRemoved
	case was.Kind == palyra.PathLink || now.Kind == palyra.PathLink:
		return palyra.ChangeLink
	}
	same := *was
	same.Mode = now.Mode
	unread := was.Kind == palyra.PathFile && was.Digest == "" // nobody knows whether its content is the same
	if same == *now && !unread {
		return palyra.ChangeMode
	}
	return palyra.ChangeContent
}

// add counts one change.
func add(e *palyra.Effects, c palyra.Change) {
	switch c.Kind {
	case palyra.ChangeCreated:
		e.Created++
	case palyra.ChangeRemoved:
		e.Removed++
	case palyra.ChangeMode:
		e.Mode++
	case palyra.ChangeLink:
		e.Link++
	default:
		e.Changed++
	}
	if c.Was != nil {
		e.BytesWas += c.Was.Size
	}
	if c.Now != nil {
		e.BytesNow += c.Now.Size
	}
}

// The bounds of a list of changes. What is beyond them is counted.
const (
	MaxLines = 100_000
	MaxBytes = 16 << 20
)

// List returns the list of changes, which are in the order of their names' bytes: a
// line of JSON for each, and what it comes to. Paths that were there before come first, so
// that a run cannot push what it did to them out of the list by making more.
func List(all []palyra.Change) (palyra.Effects, []byte, error) {
	var e palyra.Effects
	var text []byte
	listed := 0
	for _, c := range inOrder(all) {
		add(&e, c)
		line, err := canon.JSON(c)
		if err != nil {
			return palyra.Effects{}, nil, err
		}
		if e.Omitted > 0 || listed == MaxLines || len(text)+len(line)+1 > MaxBytes {
			e.Omitted++
			continue
		}
		text = append(append(text, line...), '\n')
		listed++
	}
	e.Digest = palyra.SumBytes(text)
	return e, text, nil
}

// inOrder returns changes as a list has them.
func inOrder(all []palyra.Change) []palyra.Change {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b palyra.Change) int { return rank(a) - rank(b) })
	return out
}

func rank(c palyra.Change) int {
	if c.Kind == palyra.ChangeCreated {
		return 1
	}
	return 0
}

// Read reads a list that List wrote, and refuses one that is not the list of these effects.
func Read(e palyra.Effects, text []byte) ([]palyra.Change, error) {
	if palyra.SumBytes(text) != e.Digest {
		return nil, errors.New("effects: the list of changes is not the one that was recorded")
	}
	var all []palyra.Change
	var counted palyra.Effects
	last, made := "", false
	for lines := bufio.NewReader(bytes.NewReader(text)); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			break
		}
		var c palyra.Change
		if err == nil {
			err = canon.Strict(line, &c)
		}
		if err != nil {
			return nil, fmt.Errorf("effects: line %d of the list of changes cannot be read", len(all)+1)
		}
		name, err := nameIn(c)
		created := c.Kind == palyra.ChangeCreated
		first := len(all) == 0 || created && !made
		if err != nil || made && !created || !first && name <= last {
			return nil, fmt.Errorf("effects: line %d of the list of changes is no change, or not in its place", len(all)+1)
		}
		add(&counted, c)
		all, last, made = append(all, c), name, created
	}
	counted.Digest, counted.List, counted.Omitted = e.Digest, e.List, e.Omitted
	if e.Omitted == 0 && counted != e || counted.Total()+e.Omitted != e.Total() {
		return nil, errors.New("effects: the list of changes has others than were counted")
	}
	return all, nil
}

// nameIn is the name of a change's path. The workspace's own directory has the empty one.
func nameIn(c palyra.Change) (string, error) {
	if (c.Was == nil && c.Now == nil) || KindOf(c.Was, c.Now) != c.Kind {
		return "", errors.New("effects: this is no change")
	}
	return c.Path.Name()
}
