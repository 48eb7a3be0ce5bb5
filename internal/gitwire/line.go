package gitwire

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/gitobject"
)

// The bounds of a conversation.
const (
	maxLine    = 65520
	maxRefs    = 16 << 20 // bytes of all that a server lists
	maxUpdates = 64
)

// ErrWire is for what is not as git says it.
var ErrWire = errors.New("it is not as git says it")

func bad(what string) error { return fmt.Errorf("%w: %s", ErrWire, what) }

// none reports whether an id stands for no object.
func none(id string) bool { return strings.Trim(id, "0") == "" }

// readLine reads one line, which may be a flush; raw is as it came.
func readLine(r io.Reader) (raw []byte, text string, flush bool, err error) {
	raw = make([]byte, 4)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, "", false, err
	}
	n, err := strconv.ParseUint(string(raw), 16, 32)
	switch {
	case err != nil || n > maxLine || n > 0 && n < 4 || strings.ToLower(string(raw)) != string(raw):
		return nil, "", false, bad("a line of no length")
	case n == 0:
		return raw, "", true, nil
	}
	raw = append(raw, make([]byte, n-4)...)
	if _, err := io.ReadFull(r, raw[4:]); err != nil {
		return nil, "", false, err
	}
	return raw, string(raw[4:]), false, nil
}

// ReadRefs reads the refs that a server lists, and what it said to the byte.
func ReadRefs(r io.Reader) (raw []byte, refs map[string]string, err error) {
	refs = map[string]string{}
	for {
		line, text, flush, err := readLine(r)
		if err != nil {
			return nil, nil, err
		}
		if raw = append(raw, line...); len(raw) > maxRefs {
			return nil, nil, bad("too many refs")
		}
		if flush {
			return raw, refs, nil
		}
		text, _, _ = strings.Cut(strings.TrimSuffix(text, "\n"), "\x00")
		if why, ok := strings.CutPrefix(text, "ERR "); ok {
			return nil, nil, fmt.Errorf("the server says: %q", why[:min(len(why), 200)])
		}
		id, name, ok := strings.Cut(text, " ")
		switch {
		case id == "shallow" && gitobject.IsID(name):
		case !ok || !gitobject.IsID(id):
			return nil, nil, bad("a ref that is none")
		case name != ".have" && name != "capabilities^{}":
			if _, again := refs[name]; again {
				return nil, nil, bad("a ref that is there twice")
			}
			refs[name] = id
		}
	}
}

// ReadUpdates reads what git wants of refs that a server listed, and what it said to the byte. How is not known yet.
func ReadUpdates(r io.Reader, refs map[string]string) (raw []byte, list []Update, err error) {
	for first := true; ; {
		line, text, flush, err := readLine(r)
		if err != nil {
			return nil, nil, err
		}
		raw = append(raw, line...)
		if flush {
			return raw, list, nil
		}
		text, options, with := strings.Cut(strings.TrimSuffix(text, "\n"), "\x00")
		words := strings.SplitN(text, " ", 3)
		switch {
		case words[0] == "shallow":
			return nil, nil, bad("a push of a repository that does not have its whole history (get it first: git fetch --unshallow)")
		case len(words) != 3 || with != first:
			return nil, nil, bad("a push that is signed, or is no push")
		case slices.ContainsFunc(strings.Fields(options), pushOption):
			return nil, nil, bad("options for the server are not passed on (git push -o)")
		case len(list) == maxUpdates:
			return nil, nil, bad(fmt.Sprintf("more than %d refs at once", maxUpdates))
		}
		first = false
		u := Update{Old: words[0], New: words[1], Ref: words[2]}
		if err := u.fits(refs, list); err != nil {
			return nil, nil, err
		}
		list = append(list, u)
	}
}

// fits refuses an update that a server would refuse, or could read otherwise.
func (u Update) fits(refs map[string]string, before []Update) error {
	was, there := refs[u.Ref]
	switch {
	case !gitobject.IsID(u.Old) || !gitobject.IsID(u.New) || len(u.Old) != len(u.New) || none(u.Old) && none(u.New):
		return bad("an update without its ids")
	case !ValidRef(u.Ref):
		return bad("a ref whose name is not plain text")
	case there && was != u.Old, !there && !none(u.Old):
		return bad("an update of what the server does not have")
	case slices.ContainsFunc(before, func(b Update) bool { return b.Ref == u.Ref }):
		return bad("two updates of one ref")
	}
	return nil
}

// pushOption reports whether a word asks for options of a push, with a value or without.
func pushOption(word string) bool { return strings.HasPrefix(word, "push-options") }
