// Package hostport reads the ports that background processes publish, as people, calls and plans write them, and takes
// ports of this machine.
package hostport

import (
	"errors"
	"strconv"
	"strings"
)

// Pair is a port of this machine, at its own loopback address, and the port of a process that answers there.
type Pair struct{ Host, Inside int }

// String is the pair as plans have it: HOST:INSIDE.
func (p Pair) String() string { return strconv.Itoa(p.Host) + ":" + strconv.Itoa(p.Inside) }

// ErrNone is the error of a text that is no pair.
var ErrNone = errors.New("not PORT, nor HOST:INSIDE, each from 1 to 65535")

// Parse reads HOST:INSIDE, or PORT for both. Whether the port may be published is not looked at.
func Parse(s string) (Pair, error) {
	host, inside, two := strings.Cut(s, ":")
	if !two {
		inside = host
	}
	p := Pair{number(host), number(inside)}
	if p.Host == 0 || p.Inside == 0 {
		return Pair{}, ErrNone
	}
	return p, nil
}

// ParseAll reads several, and names the one that is none.
func ParseAll(all []string) (out []Pair, bad string) {
	for _, s := range all {
		p, err := Parse(s)
		if err != nil {
			return nil, s
		}
		out = append(out, p)
	}
	return out, ""
}

// number is the port that a text is; 0: it is none.
func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0
	}
	return int(n)
}
