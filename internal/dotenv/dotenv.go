// Package dotenv shows files with secrets (.env and its kind) as copies whose secret values are placeholders.
//
// Words: a masked file is one whose name counts (Names); its masked copy is the same byte for byte but for values; a
// placeholder stands for a value, says what it is, and is the same for the same value of the same variable in the
// same file as it stands, so that two looks at it print the same.
//
// Promises. A placeholder follows from the value by a secret key only, which is another one for every path and every content
// of a file: nobody can try values out on it in another file, nor in this one without knowing all the rest of it. What cannot be
// read as such a file is left out from that point on, and so is a file that is too large: nothing is shown because it
// was not understood. A masked value of MinSecret bytes or more is nowhere in the copy, not in a comment either. The copy of a
// copy is the copy.
//
// What it does not do. Values under MinSecret bytes, numbers and booleans stay: servers need their ports, and masking what
// is short would tell it to whoever guesses. Copies of a file under names that do not count, and what is in git's history,
// are not found.
package dotenv

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/big"

	"palyra/internal/pattern"
)

// Bounds.
const (
	MinSecret = 12      // bytes of the shortest value that is masked
	MaxFile   = 1 << 20 // bytes of the largest file that is read
	maxNumber = 20      // bytes of the longest value that counts as a number: longer ones are no numbers of programs
	maxPasses = 8
)

// Prefix begins every placeholder; letters follow.
const (
	Prefix  = "palyra-masked-"
	letters = 20
)

var placeholder = pattern.Later(Prefix + `[a-z]{20}`)

// Carries reports whether text has a placeholder in it.
func Carries(text []byte) bool {
	return bytes.Contains(text, []byte(Prefix)) && placeholder().Match(text)
}

// Masker masks the files of one workspace.
type Masker struct {
	Key       []byte // secret
	Workspace string
	// Known gives another placeholder for a value, of the caller's own making; nil: for none. It must know its placeholders
	// again, and give them for themselves.
	Known func(name string, value []byte) (placeholder string, ok bool)
}

// tooLarge and unreadable are what a copy says instead of what it does not show.
const (
	tooLarge   = "# " + Prefix + "file: it is larger than 1 MiB, and nothing of it is shown\n"
	unreadable = "# " + Prefix + "rest: it could not be read as a .env file from here on, and is not shown\n"
	unopened   = "# " + Prefix + "file: it cannot be read here\n"
)

// Unread is the copy of a file that cannot be read.
func Unread() []byte { return []byte(unopened) }

// Mask returns the masked copy of a file, which lies at a path below the workspace. Placeholders of two files, and of one file
// before and after it was changed, have nothing in common: whoever can write one could try values out.
func (m Masker) Mask(path string, text []byte) []byte {
	if len(text) > MaxFile {
		return []byte(tooLarge)
	}
	return m.maskWith(m.domain("file", []byte(path), text), text)
}

// MaskBoth returns the masked copies of a file before and after a change, in which the same value of the same variable has the same
// placeholder: for people only. Whoever chose one of the two could try values out on the other.
func (m Masker) MaskBoth(path string, before, after []byte) (was, is []byte) {
	if len(before) > MaxFile || len(after) > MaxFile {
		return m.Mask(path, before), m.Mask(path, after)
	}
	key := m.domain("change", []byte(path), before, after)
	return m.maskWith(key, before), m.maskWith(key, after)
}

// maskWith masks a text by the key of its placeholders.
func (m Masker) maskWith(key, text []byte) []byte {
	m.Key = key
	given := map[string]bool{}
	for range maxPasses { // what is put in for a value can make another file of it
		out := m.pass(text, given)
		if bytes.Equal(out, text) {
			return out
		}
		text = out
	}
	return []byte(unreadable)
}

// pass masks every value once. given are the placeholders that others gave.
func (m Masker) pass(text []byte, given map[string]bool) []byte {
	all, cut := read(text)
	var masked []span // those of all that change
	stands := map[string]string{}
	for _, s := range all {
		value := string(text[s.from:s.to])
		if given[value] || s.to > cut {
			continue
		}
		if m.Known != nil && len(value) >= MinSecret { // shorter ones would be told by what stands for them
			if p, ok := m.Known(s.name, []byte(value)); ok {
				given[p] = true
				stands[value] = p
				masked = append(masked, s)
				continue
			}
		}
		if !plain(value) || s.always && value != "" && !whole(value) {
			if stands[value] == "" {
				stands[value] = m.placeholder(s.name, value)
			}
			s.as = m.placeholder(s.name, value)
			masked = append(masked, s)
		}
	}
	out := make([]byte, 0, len(text)+len(unreadable)+64*len(masked))
	at := 0
	for _, s := range masked {
		out = append(out, replaceValues(text[at:s.from], stands)...)
		if s.as == "" {
			s.as = stands[string(text[s.from:s.to])]
		}
		out = append(out, s.as...)
		at = s.to
	}
	out = append(out, replaceValues(text[at:max(at, cut)], stands)...)
	if cut < len(text) {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, unreadable...)
	}
	return out
}

// Variable is a variable of a file, with its value as it stands there.
type Variable struct {
	Name  string
	Value []byte
}

// Secrets returns the variables of a file whose values are masked in it, each with the last value that it is given. What
// cannot be read, and what stands for a value already, is none of them.
func Secrets(text []byte) (list []Variable) {
	all, cut := read(text)
	at := map[string]int{}
	for _, s := range all {
		value := text[s.from:s.to]
		if s.to > cut || s.always || plain(string(value)) || Carries(value) {
			continue
		}
		if i, again := at[s.name]; again {
			list[i].Value = bytes.Clone(value)
			continue
		}
		at[s.name] = len(list)
		list = append(list, Variable{s.name, bytes.Clone(value)})
	}
	return list
}

// replaceValues is text in which no masked value is left.
func replaceValues(text []byte, stands map[string]string) []byte {
	for value, p := range stands {
		if len(value) >= MinSecret && value != p {
			text = bytes.ReplaceAll(text, []byte(value), []byte(p))
		}
	}
	return text
}

var number = pattern.Later(`^[+-]?[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// plain reports whether a value stays as it is.
func plain(value string) bool {
	return len(value) < MinSecret || len(value) <= maxNumber && number().MatchString(value) || whole(value) || len(value) <= len(Prefix) &&
		bytes.Contains([]byte(Prefix), []byte(value))
}

// whole reports whether a value is a placeholder and nothing else.
func whole(value string) bool {
	return len(value) == len(Prefix)+letters && placeholder().MatchString(value)
}

// domain is the key of the placeholders of a file.
func (m Masker) domain(kind string, parts ...[]byte) []byte {
	return sum(m.Key, append([][]byte{[]byte(kind), []byte(m.Workspace)}, parts...)...)
}

// sum is an HMAC of parts, each with its length.
func sum(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write(part)
	}
	return h.Sum(nil)
}

// placeholder stands for a value of a variable.
func (m Masker) placeholder(name, value string) string {
	n := new(big.Int).SetBytes(sum(m.Key, []byte(name), []byte(value)))
	out := []byte(Prefix)
	base, digit := big.NewInt(26), new(big.Int)
	for range letters {
		n.DivMod(n, base, digit)
		out = append(out, 'a'+byte(digit.Int64()))
	}
	return string(out)
}
