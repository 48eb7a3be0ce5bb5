package process

import (
	"path"
	"strings"

	programs "palyra/internal/program"
)

// findings are the files that a command interprets, as its arguments tell.
type findings struct {
	files    []string // as named, relative to dir
	dir      string   // relative to the working directory; empty: the working directory
	operand  string   // the script operand; it may be tried with endings
	defaults bool     // no file was named: the rule's defaults count
	unsure   bool     // an unknown option: it is not certain which argument is the operand
	maybe    []string // arguments that may be interpreted files, because of the unknown option

	wrapped string   // the program that the command runs
	rest    []string // its arguments
	env     []string // names of variables set for it
	cleared bool     // it is run without PATH
}

// scan reads arguments, without the command, by a row of the table. It never fails: an argument
// that it does not understand is skipped or taken for a file, and noted.
func scan(r *programs.Binding, args []string) findings {
	s := scanner{Binding: r, args: args}
	for s.step() {
	}
	f := s.findings
	operands := s.operands
	if r.Verb != "" {
		if len(operands) == 0 || operands[0] != r.Verb {
			f.files, f.defaults = nil, len(r.Defaults) > 0
			return f
		}
		operands = operands[1:]
	}
	f.defaults = len(r.Defaults) > 0 && len(f.files) == 0
	switch {
	case r.Script && r.All && !s.inline:
		for _, o := range operands {
			if o != "-" {
				f.files = append(f.files, o)
			}
		}
	case r.Wraps:
		f.unsure = f.unsure || r.Number && len(operands) > 0 && strings.Trim(operands[0], "0123456789") != ""
		if !s.inline && len(operands) > r.Skip {
			f.wrapped, f.rest = operands[r.Skip], operands[r.Skip+1:]
		}
	case r.Script && !s.inline && len(operands) > 0 && operands[0] != "-":
		f.operand = operands[0]
	case r.Suffix != "":
		for _, o := range operands {
			if !strings.HasSuffix(o, r.Suffix) {
				break
			}
			f.files = append(f.files, o)
		}
	}
	return f
}

// scanner walks over arguments.
type scanner struct {
	*programs.Binding
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
	option := strings.HasPrefix(arg, "-") || s.Plus && strings.HasPrefix(arg, "+")
	switch {
	case !s.ended && arg == "-" && s.Clear != "": // env takes it for -i
		s.give(programs.Clear, "")
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

// word takes an operand. The arguments after the script or the program to run belong to that one,
// and programs that run others take no options after an operand.
func (s *scanner) word(arg string) {
	s.ended = s.ended || s.Follow
	if name, _, is := strings.Cut(arg, "="); is && s.Assigns && len(s.operands) == s.Skip {
		s.findings.env = append(s.findings.env, name)
		return
	}
	s.operands = append(s.operands, arg)
	last := s.Skip + 1
	if s.Verb != "" {
		last++
	}
	ours := s.Verb == "" || s.operands[0] == s.Verb // the table says nothing about other verbs
	s.ended = s.ended || (s.Script && !s.All || s.Wraps || s.Suffix != "" && ours) && len(s.operands) >= last
}

// longOption reads an option of several letters. It returns false for a cluster of short options.
func (s *scanner) longOption(arg string) bool {
	name, two := strings.CutPrefix(arg, "--")
	if !two {
		if !s.Word() {
			return false
		}
		name = arg[1:]
	}
	name, value, has := strings.Cut(name, "=")
	k, known := s.named(name, two)
	switch {
	case !known && two:
		s.unknown(value, has, "")
	case !known:
		return false
	case k == programs.Flag || k == programs.Clear || k == programs.Attached:
		s.give(k, "")
	case k == programs.Pair:
		s.take()
		s.take()
	case has:
		s.give(k, value)
	default:
		s.give(k, s.take())
	}
	return true
}

// named finds a long option by its name or, as getopt_long(3) does for options with two dashes, by
// the beginning of one. An ambiguous beginning is unknown: the program itself refuses it.
func (s *scanner) named(name string, short bool) (k programs.Kind, known bool) {
	if k, known = s.Longs[name]; known || name == "" {
		return k, known
	}
	kinds := map[programs.Kind]bool{}
	for long, is := range s.Longs {
		if is == programs.Attached {
			is = programs.Flag // that is how the next argument is to be read
		}
		if strings.HasPrefix(long, name) {
			kinds[is] = true
		}
	}
	for only := range kinds {
		k = only
	}
	return k, short && len(kinds) == 1
}

// unknown handles an option that the table lacks, and the rest of its argument. Whether that or the
// next argument is its value is not known, so any later argument may be the script. Where the
// instructions are in the arguments, or the operands are no scripts, that does not matter.
func (s *scanner) unknown(value string, attached bool, rest string) {
	switch {
	case s.Follow:
		s.unsure = true
	case s.inline || !s.Script && s.Suffix == "":
	case s.Verb != "" && len(s.operands) > 0 && s.operands[0] != s.Verb:
	case attached:
		s.maybe = append(s.maybe, value)
	case !s.unsure:
		if s.unsure = true; rest != "" {
			s.maybe = append(s.maybe, rest)
		}
		s.maybe = append(s.maybe, s.args...)
	}
}

// cluster reads short options that stand together.
func (s *scanner) cluster(letters string) {
	for i := range len(letters) {
		rest := letters[i+1:]
		k, known := s.Letters[letters[i:i+1]]
		switch {
		case !known: // the rest may be its value, or further letters
			s.unknown("", false, rest)
		case k == programs.Next:
			s.take()
		case k == programs.Attached:
			return
		case k == programs.Flag || k == programs.Clear:
			s.give(k, "")
		case k == programs.Inline && s.Plus: // as in a shell: the text is the first operand, and other options may follow
			s.give(k, "")
		default:
			s.give(k, s.valueOf(rest))
			return
		}
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

func (s *scanner) give(k programs.Kind, value string) {
	switch {
	case k == programs.Inline:
		s.inline = true
	case k == programs.Clear || k == programs.Unset && value == "PATH":
		s.cleared = true
	case k == programs.Split:
		words, ok := splitWords(value)
		s.args, s.unsure = append(words, s.args...), s.unsure || !ok
	case k == programs.Runs && value != "":
		s.wrapped = value
	case k == programs.File && value != "" && value != "-":
		s.files = append(s.files, value)
	case k == programs.Dir && value != "":
		if !path.IsAbs(value) && s.findings.dir != "" && !s.Follow { // env uses the last directory only
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
