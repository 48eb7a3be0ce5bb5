package seatbelt

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A small reader and judge of the profile language, so that tests ask a profile
// what it allows instead of comparing text. It is strict: what it does not know is
// an error, as it would be for the system.

type atom struct {
	text string // of a symbol, a string or an expression
	kind byte   // 's'ymbol, '"'string, '#'expression, '('list
	list []atom
}

func (a atom) head() string {
	if a.kind == '(' && len(a.list) > 0 && a.list[0].kind == 's' {
		return a.list[0].text
	}
	return ""
}

func readAll(text string) ([]atom, error) {
	r := &reader{text: text}
	var out []atom
	for {
		r.blank()
		if r.at == len(r.text) {
			return out, nil
		}
		a, err := r.one()
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
}

type reader struct {
	text string
	at   int
}

func (r *reader) blank() {
	for r.at < len(r.text) && strings.IndexByte(" \n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) one() (atom, error) {
	switch rest := r.text[r.at:]; {
	case rest[0] == '(':
		return r.list()
	case rest[0] == '"':
		r.at++
		return r.quoted()
	case strings.HasPrefix(rest, `#"`):
		end := strings.IndexByte(rest[2:], '"')
		if end < 0 {
			return atom{}, errors.New("an expression without end")
		}
		r.at += 2 + end + 1
		return atom{text: rest[2 : 2+end], kind: '#'}, nil
	default:
		n := strings.IndexAny(rest, " \n()\"#;'`,")
		if n <= 0 {
			return atom{}, fmt.Errorf("a stray %.10q", rest)
		}
		r.at += n
		return atom{text: rest[:n], kind: 's'}, nil
	}
}

func (r *reader) quoted() (atom, error) {
	var b strings.Builder
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return atom{text: b.String(), kind: '"'}, nil
		case c == '\\':
			if r.at++; r.at == len(r.text) || strings.IndexByte(`"\`, r.text[r.at]) < 0 {
				return atom{}, errors.New("an escape that means something else")
			}
			b.WriteByte(r.text[r.at])
		case c < ' ':
			return atom{}, errors.New("a control character in a string")
		default:
			b.WriteByte(c)
		}
	}
	return atom{}, errors.New("a string without end")
}

func (r *reader) list() (atom, error) {
	r.at++
	out := atom{kind: '('}
	for {
		r.blank()
		switch {
		case r.at == len(r.text):
			return atom{}, errors.New("a list without end")
		case r.text[r.at] == ')':
			r.at++
			return out, nil
		}
		a, err := r.one()
		if err != nil {
			return atom{}, err
		}
		out.list = append(out.list, a)
	}
}

// act is something that a program tries.
type act struct {
	op   string // file-write-create
	path string
	name string // of a service
	to   string // "tcp localhost:80", "udp localhost:80"
	self bool   // the target is of the same sandbox
}

// policy is a profile that was read.
type policy []atom

func readPolicy(text string) (policy, error) {
	all, err := readAll(text)
	if err != nil {
		return nil, err
	}
	if len(all) < 2 || all[0].head() != "version" || all[1].head() != "deny" || all[1].list[1].text != "default" {
		return nil, errors.New("it does not begin with a version and the default")
	}
	for _, r := range all[1:] {
		if h := r.head(); h != "allow" && h != "deny" {
			return nil, fmt.Errorf("a form %q", h)
		}
		for _, a := range r.list[1:] {
			if a.kind != 's' {
				if _, err := fits(a, act{}); err != nil {
					return nil, err
				}
			}
		}
	}
	return all[2:], nil
}

// beyond are operations that the default is said not to reach: they are allowed
// unless a rule names them.
var beyond = []string{"process-info", "file-link"}

// allows judges as the kernel does: of the rules with filters the last that fits,
// else one without filters, else the default, which is to deny.
func (p policy) allows(t act) bool {
	plain := slices.ContainsFunc(beyond, func(b string) bool { return strings.HasPrefix(t.op, b) })
	found, verdict := false, false
	for _, r := range p {
		if !names(r, t.op) {
			continue
		}
		yes, filters := r.head() == "allow", 0
		for _, f := range r.list[1:] {
			if f.kind == 's' {
				continue
			}
			filters++
			if ok, err := fits(f, t); err == nil && ok {
				found, verdict = true, yes
			}
		}
		if filters == 0 {
			plain = yes
		}
	}
	if found {
		return verdict
	}
	return plain
}

func names(r atom, op string) bool {
	for _, a := range r.list[1:] {
		if a.kind != 's' {
			continue
		}
		if prefix, star := strings.CutSuffix(a.text, "*"); a.text == op || (star && strings.HasPrefix(op, prefix)) {
			return true
		}
	}
	return false
}

// regexps are the expressions of profiles, compiled: the names that are sealed are the same in thousands of them.
var regexps sync.Map

func compiled(text string) (*regexp.Regexp, error) {
	if e, ok := regexps.Load(text); ok {
		return e.(*regexp.Regexp), nil
	}
	e, err := regexp.Compile(text)
	if err == nil {
		regexps.Store(text, e)
	}
	return e, err
}

func fits(f atom, t act) (bool, error) {
	head, args := f.head(), f.list[1:]
	text := ""
	if len(args) > 0 {
		text = args[0].text
	}
	switch {
	case head == "subpath" && args[0].kind == '"':
		return t.path == text || strings.HasPrefix(t.path, strings.TrimSuffix(text, "/")+"/"), nil
	case head == "literal" && args[0].kind == '"':
		return t.path == text, nil
	case head == "regex" && args[0].kind == '#':
		e, err := compiled(text)
		return err == nil && t.path != "" && e.MatchString(t.path), err
	case head == "require-all" || head == "require-any" || head == "require-not":
		return combined(head, args, t)
	case head == "global-name" || head == "ipc-posix-name":
		return t.name == text, nil
	case head == "target" && text == "same-sandbox":
		return t.self, nil
	case (head == "remote" || head == "local") && text == "unix-socket":
		return fits(args[1], t)
	case head == "remote" && text == "tcp":
		return t.to == "tcp "+args[1].text, nil
	}
	return false, fmt.Errorf("a filter %q", head)
}

func combined(head string, args []atom, t act) (bool, error) {
	n := 0
	for _, a := range args {
		ok, err := fits(a, t)
		if err != nil {
			return false, err
		}
		if ok {
			n++
		}
	}
	switch head {
	case "require-all":
		return n == len(args), nil
	case "require-any":
		return n > 0, nil
	}
	return n == 0, nil
}
