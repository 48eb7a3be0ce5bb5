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
	defaults bool     // no file was named: the rule's defaults count
	unsure   bool     // an option was not understood: which argument is the operand is not certain
	maybe    []string // arguments that may be files it interprets, since an option was not understood

	wrapped string   // the program that is run in turn
	rest    []string // its arguments
	env     []string // names that are set for it
	cleared bool     // it is run without PATH
}

// scan reads arguments, without the command, by a rule. It never fails: what it
// does not understand it passes over or takes for a file, and says so.
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
		f.unsure = f.unsure || r.number && len(operands) > 0 && strings.Trim(operands[0], "0123456789") != ""
		if !s.inline && len(operands) > r.skip {
			f.wrapped, f.rest = operands[r.skip], operands[r.skip+1:]
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
	case !s.ended && arg == "-" && s.clear != "": // env takes it for -i
		s.give(isClear, "")
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
// of that one, and programs that run others take no options after an operand.
func (s *scanner) word(arg string) {
	s.ended = s.ended || s.follow
	if name, _, is := strings.Cut(arg, "="); is && s.assigns && len(s.operands) == s.skip {
		s.findings.env = append(s.findings.env, name)
		return
	}
	s.operands = append(s.operands, arg)
	last := s.skip + 1
	if s.verb != "" {
		last++
	}
	s.ended = s.ended || (s.script || s.wraps) && len(s.operands) >= last
}

// longOption reads an option of several letters. False: it is none, but letters
// that stand together.
func (s *scanner) longOption(arg string) bool {
	name, two := strings.CutPrefix(arg, "--")
	if !two {
		if !s.single {
			return false
		}
		name = arg[1:]
	}
	name, value, has := strings.Cut(name, "=")
	k, known := s.named(name, two)
	switch {
	case !known && two:
		s.unknown(value, has)
	case !known:
		return false
	case k == isFlag || k == isClear:
		s.give(k, "")
	case has:
		s.give(k, value)
	default:
		s.give(k, s.take())
	}
	return true
}

// named finds a long option by its name or, as getopt_long(3) does for options
// with two dashes, by the beginning of one. A beginning of options of more than
// one kind is one of none: the program itself refuses it.
func (s *scanner) named(name string, short bool) (k kind, known bool) {
	if k, known = s.long[name]; known || name == "" {
		return k, known
	}
	kinds := map[kind]bool{}
	for flag := range strings.FieldsSeq(s.switches) {
		if flag == name {
			return isFlag, true
		}
		if strings.HasPrefix(flag, name) {
			kinds[isFlag] = true
		}
	}
	for long, is := range s.long {
		if strings.HasPrefix(long, name) {
			kinds[is] = true
		}
	}
	for only := range kinds {
		k = only
	}
	return k, short && len(kinds) == 1
}

// unknown meets a long option that the table lacks. Whether the next argument is
// its value cannot be said, so any that follows may be the script. Where the
// instructions are in the arguments, or the operands are no scripts, that does
// not matter.
func (s *scanner) unknown(value string, attached bool) {
	switch {
	case s.follow:
		s.unsure = true
	case s.inline || !s.script && s.suffix == "":
	case s.verb != "" && len(s.operands) > 0 && s.operands[0] != s.verb:
	case attached:
		s.maybe = append(s.maybe, value)
	case !s.unsure:
		s.unsure, s.maybe = true, append(s.maybe, s.args...)
	}
}

// cluster reads short options that stand together.
func (s *scanner) cluster(letters string) {
	for i := range len(letters) {
		c, rest := letters[i:i+1], letters[i+1:]
		if strings.Contains(s.next, c) {
			s.take()
			continue
		}
		if strings.Contains(s.attached, c) {
			return
		}
		if strings.Contains(s.rule.inline, c) {
			s.give(isInline, "")
			if s.plus { // a shell's: the text is the first operand, and other options may follow
				continue
			}
			if rest == "" {
				s.take()
			}
			return
		}
		k, known := s.letter(c)
		switch {
		case !known:
			s.unsure = s.unsure || s.follow
		case k == isFlag || k == isClear:
			s.give(k, "")
		default:
			s.give(k, s.valueOf(rest))
			return
		}
	}
}

// letter says what a short option is, of those with a value in the same argument
// or the next, and those without.
func (s *scanner) letter(c string) (kind, bool) {
	for _, of := range []struct {
		letters string
		kind    kind
	}{
		{s.file, isFile},
		{s.rule.dir, isDir},
		{s.value, isValue},
		{s.unset, isUnset},
		{s.split, isSplit},
		{s.clear, isClear},
		{s.flags, isFlag},
	} {
		if strings.Contains(of.letters, c) {
			return of.kind, true
		}
	}
	return 0, false
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
	case k == isClear || k == isUnset && value == "PATH":
		s.cleared = true
	case k == isSplit:
		words, ok := splitWords(value)
		s.args, s.unsure = append(words, s.args...), s.unsure || !ok
	case k == isProgram && value != "":
		s.wrapped = value
	case k == isFile && value != "" && value != "-":
		s.files = append(s.files, value)
	case k == isDir && value != "":
		if !path.IsAbs(value) && s.findings.dir != "" && !s.follow { // env enters the last one only
			value = s.findings.dir + "/" + value
		}
		s.findings.dir = value
	}
}

// splitWords splits text as env -S does; false when it has quotes, variables or
// other signs that mean something to env.
func splitWords(text string) ([]string, bool) {
	if strings.ContainsAny(text, "\\\"'$#\x00\n\v\f\r") {
		return nil, false
	}
	return strings.Fields(text), true
}
