package canon

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Decode reads canonical bytes back into a value. Every accepted input is what
// Append writes for the value returned: there is no second encoding. Texts in the
// value share one copy of b.
func Decode(b []byte) (any, error) {
	d := decoder{b: string(b)}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.i != len(b) {
		return nil, errRest
	}
	return v, nil
}

type decoder struct {
	b string
	i int
}

// most bounds what is made ahead for members that are still to be read.
const most = 16

var (
	errShort = errors.New("canon: value cut short")
	errRest  = errors.New("canon: bytes after the value")
)

func (d *decoder) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	if d.i >= len(d.b) {
		return nil, errShort
	}
	tag := d.b[d.i]
	d.i++
	switch tag {
	case 'z':
		return nil, nil
	case 't', 'f':
		return tag == 't', nil
	case 'n':
		s, err := d.number()
		if err != nil {
			return nil, err
		}
		return json.Number(s), nil
	case 's':
		return d.text()
	case 'l':
		return d.list(depth)
	case 'm':
		return d.pairs(depth)
	}
	return nil, fmt.Errorf("canon: unknown tag %q", tag)
}

// count reads a minimal decimal and its colon. No value takes less than one
// byte, so a count beyond what is left is refused before anything is made.
func (d *decoder) count() (int, error) {
	start, n := d.i, 0
	for d.i < len(d.b) && d.b[d.i] >= '0' && d.b[d.i] <= '9' {
		n = n*10 + int(d.b[d.i]-'0')
		if n > len(d.b) {
			return 0, errShort
		}
		d.i++
	}
	if d.i == start || (d.b[start] == '0' && d.i > start+1) {
		return 0, errors.New("canon: bad length")
	}
	if d.i >= len(d.b) || d.b[d.i] != ':' {
		return 0, errors.New("canon: bad length")
	}
	d.i++
	return n, nil
}

func (d *decoder) text() (string, error) {
	n, err := d.count()
	if err != nil {
		return "", err
	}
	if d.i+n > len(d.b) {
		return "", errShort
	}
	s := d.b[d.i : d.i+n]
	d.i += n
	if !utf8.ValidString(s) {
		return "", ErrText
	}
	return s, nil
}

func (d *decoder) number() (string, error) {
	s, err := d.text()
	if err != nil {
		return "", err
	}
	if n, err := normal(s); err != nil || n != s {
		return "", fmt.Errorf("canon: number %q is not in normal form", s)
	}
	return s, nil
}

// key reads the i-th key of a map, which is greater than the last one.
func (d *decoder) key(i int, last string) (string, error) {
	if d.i >= len(d.b) || d.b[d.i] != 's' {
		return "", errors.New("canon: key is not a string")
	}
	d.i++
	k, err := d.text()
	if err == nil && i > 0 && k <= last {
		err = errors.New("canon: keys out of order")
	}
	return k, err
}

func (d *decoder) list(depth int) (any, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, min(n, most))
	for range n {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *decoder) pairs(depth int) (any, error) {
	n, err := d.count()
	if err != nil {
		return nil, err
	}
	m, last := make(map[string]any, min(n, most)), ""
	for i := range n {
		k, err := d.key(i, last)
		if err != nil {
			return nil, err
		}
		last = k
		if m[k], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}
