package process

import (
	"path"
	"strings"
)

// findings are what a command's arguments tell about the files it interprets.
type findings struct {
	files    []string // as named, relative to dir
	dir      string   // relative to the working directory; empty: there
	operand  string   // the script operand; it may be tried with endings
	wrapped  string   // the program that is run in turn
	defaults bool     // no file was named: the rule's defaults count
}

// ruleFor finds the row for a program by one of its names: the one it was called
// by first, since programs look at that.
func ruleFor(names ...string) (rule, bool) {
	for _, n := range names {
		base := path.Base(n)
		for _, name := range []string{base, strings.TrimRight(base, "0123456789.-")} {
			for _, r := range rules {
				for known := range strings.FieldsSeq(r.names) {
					if known == name {
						return r, true
					}
				}
			}
		}
	}
	return rule{}, false
}

// scan reads arguments, without the command, by a rule. It never fails: what it
// does not understand it passes over, and the plan says that other files are not
// bound.
func (r rule) scan(args []string) findings {
	s := scanner{rule: r, args: args}
	for s.step() {
	}
	f := s.findings
	operands := s.operands
	if r.verb != "" {
		if len(operands) == 0 || operands[0] != r.verb {
			f.files, f.defaults = nil, len(r.defaults) > 0
			return f
		}
		operands = operands[1:]
	}
	f.defaults = len(r.defaults) > 0 && len(f.files) == 0
	switch {
	case r.wraps:
		if !s.inline && len(operands) > r.skip {
			f.wrapped = operands[r.skip]
		}
	case r.script && !s.inline && len(operands) > 0 && operands[0] != "-":
		f.operand = operands[0]
	case r.suffix != "":
		for _, o := range operands {
			if !strings.HasSuffix(o, r.suffix) {
				break
			}
			f.files = append(f.files, o)
		}
	}
	return f
}

// scanner walks over arguments.
type scanner struct {
	rule
	findings
	args     []string
	operands []string
	inline   bool // the instructions are in the arguments themselves
	ended    bool // no more options
}

// step reads one argument and what belongs to it. False at the end.
func (s *scanner) step() bool {
	if len(s.args) == 0 {
		return false
	}
	arg := s.take()
	option := strings.HasPrefix(arg, "-") || s.plus && strings.HasPrefix(arg, "+")
	switch {
	case s.ended || !option || arg == "-":
		s.word(arg)
	case arg == "--":
		s.ended = true
	default:
		if !s.longOption(arg) {
			s.cluster(arg[1:])
		}
	}
	return true
}

// word takes an operand. After the script or the program to run come arguments
// of that one.
func (s *scanner) word(arg string) {
	if s.wraps && len(s.operands) >= s.skip && strings.Contains(arg, "=") { // env's assignments
		return
	}
	s.operands = append(s.operands, arg)
	last := s.skip + 1
	if s.verb != "" {
		last++
	}
	s.ended = s.ended || (s.script || s.wraps) && len(s.operands) >= last
}

// longOption reads an option of several letters, with one dash or two.
func (s *scanner) longOption(arg string) bool {
	name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	k, known := s.long[name]
	if !known {
		return strings.HasPrefix(arg, "--")
	}
	if !has {
		value = s.take()
	}
	s.give(k, value)
	return true
}

// cluster reads short options that stand together.
func (s *scanner) cluster(letters string) {
	for i := range len(letters) {
		c, rest := letters[i:i+1], letters[i+1:]
		switch {
		case strings.Contains(s.next, c):
			s.take()
			continue
		case strings.Contains(s.attached, c):
			return
		case strings.Contains(s.rule.inline, c):
			s.give(isInline, "")
			if s.plus { // a shell's: the text is the first operand, and other options may follow
				continue
			}
			if rest == "" {
				s.take()
			}
		case strings.Contains(s.file, c):
			s.give(isFile, s.valueOf(rest))
		case strings.Contains(s.rule.dir, c):
			s.give(isDir, s.valueOf(rest))
		case strings.Contains(s.value, c):
			s.valueOf(rest)
		default:
			continue
		}
		return
	}
}

// valueOf returns an option's value: the rest of its argument, or the next one.
func (s *scanner) valueOf(rest string) string {
	if rest != "" {
		return rest
	}
	return s.take()
}

func (s *scanner) take() string {
	if len(s.args) == 0 {
		return ""
	}
	arg := s.args[0]
	s.args = s.args[1:]
	return arg
}

func (s *scanner) give(k kind, value string) {
	switch {
	case k == isInline:
		s.inline = true
	case k == isProgram && value != "":
		s.wrapped = value
	case k == isFile && value != "" && value != "-":
		s.files = append(s.files, value)
	case k == isDir && value != "":
		if !path.IsAbs(value) && s.findings.dir != "" {
			value = s.findings.dir + "/" + value
		}
		s.findings.dir = value
	}
}
