package palyra

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PathText is the name of a file as it stands in records. A name is bytes and need not be text; whoever runs in a
// sandbox chooses it. One that is printable UTF-8 and begins with neither a quotation mark nor an ellipsis stands as
// it is. Every other one is quoted as a Go string, as git does with such names. So each name has one text, no two
// share one, and an entry of a list that begins with an ellipsis is never a name.
type PathText string

const pathMore = "…" // begins the entry that says how many names are not listed

// TextOfPath returns the text of a name.
func TextOfPath(name string) PathText {
	if name != "" && name[0] != '"' && !strings.HasPrefix(name, pathMore) && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return PathText(name)
	}
	return PathText(strconv.Quote(name))
}

// Name returns the bytes that TextOfPath was given, or an error for a text that it does not write.
func (t PathText) Name() (string, error) {
	name := string(t)
	if quoted, err := strconv.Unquote(name); err == nil && name[0] == '"' {
		name = quoted
	}
	if TextOfPath(name) != t {
		return "", errors.New("palyra: this is not the text of a path")
	}
	return name, nil
}

// Raw is the name, or the text itself where it is not that of a name. Whoever shows it escapes it as any outside text.
func (t PathText) Raw() string {
	if name, err := t.Name(); err == nil {
		return name
	}
	return string(t)
}

// Asked is the name that a path of a call or a plan means: quoted there is only what is not UTF-8 or looks so.
func (t PathText) Asked() string {
	if name := t.Raw(); !utf8.ValidString(name) || name != string(t) && PathText(name).Asked() != name {
		return name
	}
	return string(t)
}

// More is what the last entry of a shortened list says, such as "and 12 more". It is empty for the text of a name.
func (t PathText) More() string {
	if rest, cut := strings.CutPrefix(string(t), pathMore+" "); cut {
		return rest
	}
	return ""
}

// MaxPathTexts bounds the bytes of a list that TextOfPaths returns. A record holds it up to four times: in the
// outcome, in the predicate, and the envelope of that in the outcome again and on its own.
const MaxPathTexts = 16 << 10

// TextOfPaths returns the texts of names, as many as MaxPathTexts bytes hold, in their order. When some are left out,
// or more are known to be beyond those given, a last entry says how many. It is never nil.
func TextOfPaths(names []string, more int64) []PathText {
	out, size := []PathText{}, 0
	for _, name := range names {
		t := TextOfPath(name)
		if size += len(t); size > MaxPathTexts {
			break
		}
		out = append(out, t)
	}
	if more += int64(len(names) - len(out)); more > 0 {
		out = append(out, PathText(fmt.Sprintf("%s and %d more", pathMore, more)))
	}
	return out
}
