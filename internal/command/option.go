package command

import (
	"path"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/program"
)

// parse divides words into options, which are looked up, and operands.
func (c *invocation) parse(s *spec, args []word) {
	switch s.Style {
	case program.StyleNone:
		c.operands = args
		return
	case program.StyleKeys:
		c.keys(s, args)
		return
	case program.StyleTar:
		args = oldTar(args)
	}
	early := s.Style == program.StylePosix || len(s.Sub) > 0 || s.Wrap != nil || s.late
	for len(args) > 0 {
		w := args[0]
		if w.text == "--" && w.fixed() && s.Style != program.StyleFind {
			c.operands = append(c.operands, args[1:]...)
			return
		}
		if !c.mayBeOption(s, w) {
			if early {
				c.rest(s, args)
				return
			}
			c.operands, args = append(c.operands, w), args[1:]
			continue
		}
		args = c.option(s, w, args[1:])
		if slices.ContainsFunc(strings.Fields(s.ends), func(name string) bool { return c.seen[name] }) {
			c.rest(s, args)
			return
		}
	}
}

// rest takes words for operands. Those of a script may have paths in its options: -k/x, --key=/x.
func (c *invocation) rest(s *spec, words []word) {
	c.operands = append(c.operands, words...)
	for _, w := range words {
		if !s.late || !w.dashed() || len(w.text) < 3 {
			continue
		}
		value := w.text[2:]
		if _, after, is := strings.Cut(w.text, "="); is {
			value = after
		}
		c.reads = append(c.reads, literalWord(value))
	}
}

// mayBeOption reports whether a word has to be looked up. A pattern or a word that is only known later may
// turn into an option; programs that no option can make do harm take it as an operand.
func (c *invocation) mayBeOption(s *spec, w word) bool {
	if s.Style == program.StyleFind {
		if _, ok := s.known[w.text]; ok && w.fixed() {
			return true
		}
	}
	if s.Harmless && !w.fixed() && !strings.HasPrefix(w.text, "-") {
		return false
	}
	return w.dashed()
}

// option looks one option up and returns the words after it and its values.
func (c *invocation) option(s *spec, w word, rest []word) []word {
	if !w.fixed() {
		c.doubt("a word of " + c.name + " may turn into an option")
		if s.Args == argsRemoves && !w.loose { // or into what goes away
			c.operands = append(c.operands, w)
		}
		return rest
	}
	switch {
	case s.Numeric && digits(w.text[1:]):
		return rest
	case s.Style == program.StyleFind:
		return c.take(s, w.text, nil, rest)
	case s.Style == program.StyleWord:
		name := "-" + strings.TrimLeft(w.text, "-")
		return c.long(s, name, rest)
	case strings.HasPrefix(w.text, "--"):
		return c.long(s, w.text, rest)
	}
	return c.cluster(s, w.text[1:], rest)
}

// long handles --name, --name=value and --name value.
func (c *invocation) long(s *spec, text string, rest []word) []word {
	name, value, has := strings.Cut(text, "=")
	if !has {
		return c.take(s, name, nil, rest)
	}
	v := literalWord(value)
	return c.take(s, name, &v, rest)
}

// cluster handles -abV. Each letter must be known; the first that takes a value takes the rest.
func (c *invocation) cluster(s *spec, letters string, rest []word) []word {
	for i, l := range letters {
		name := "-" + string(l)
		o, ok := s.known[name]
		if !ok {
			c.take(s, name, nil, nil)
			continue
		}
		after := letters[i+len(string(l)):]
		if s.Style == program.StyleApart && o.arity > 0 && after != "" && !digits(after) {
			c.doubt(c.name + " -" + letters + " is read differently")
		}
		if (o.arity == 1 || o.optional) && after != "" {
			v := literalWord(after)
			return c.take(s, name, &v, rest)
		}
		rest = c.take(s, name, nil, rest)
	}
	return rest
}

// take notes an option and its values, and returns the words after them.
func (c *invocation) take(s *spec, name string, value *word, rest []word) []word {
	o, ok := s.known[name]
	if !ok {
		why := c.name + " " + name + " is not a known option"
		if s.Code && s.class() == palyra.CommandUnknown {
			why = "" // no option tells what it does: its own reason says so
		}
		c.doubt(why)
		return rest
	}
	c.seen[name] = true
	c.given = c.given || o.gives
	switch o.raise {
	case "":
	case raiseCode:
		c.doubt(c.name + " " + name + " can run code")
		c.obey()
	default:
		c.raise(palyra.CommandClass(o.raise), c.name+" "+name)
	}
	if value != nil {
		if o.arity != 1 && !o.optional {
			c.doubt(c.name + " " + name + " takes no such value")
			return rest
		}
		c.value(o, name, *value)
		return rest
	}
	if o.arity > len(rest) {
		c.doubt(c.name + " " + name + " lacks a value")
		return nil
	}
	for _, v := range rest[:o.arity] {
		if strings.HasPrefix(v.text, "--") {
			c.doubt(c.name + " " + name + " is given what looks like an option")
		}
		c.value(o, name, v)
	}
	return rest[o.arity:]
}

// value notes what an option was given.
func (c *invocation) value(o option, name string, v word) {
	if !v.fixed() { // a pattern may be more words, which are options or operands
		c.doubt("the value of " + c.name + " " + name + " is not known")
		return
	}
	if o.match != nil && !o.match.MatchString(v.text) {
		c.doubt(c.name + " " + name + " is given something unusual")
	}
	switch o.role {
	case rolePath:
		if c.build && (isEmptyDevice(v.text) || anchors("/proc", path.Clean(v.text))) {
			c.obey()
			c.doubt(c.name + " reads what to do from its input")
		}
		c.reads = append(c.reads, v)
	case roleOutput:
		c.outputs = append(c.outputs, v)
	case roleScript:
		c.scripts = append(c.scripts, v)
	case roleChdir:
		c.chdir(v)
	case roleText:
	}
}

func (c *invocation) chdir(v word) {
	c.noteWritten(v, c.at)
	at, ok := c.at.enter(v.text, true)
	if !ok {
		c.doubt("the directory of " + c.name + " is not known")
		return
	}
	c.at = at
}

// keys handles programs whose words are all NAME=VALUE.
func (c *invocation) keys(s *spec, args []word) {
	for _, w := range args {
		name, value, has := strings.Cut(w.text, "=")
		if !has || !w.fixed() {
			c.operands = append(c.operands, w)
			continue
		}
		v := literalWord(value)
		c.take(s, name+"=", &v, nil)
	}
}

// oldTar writes the first word of tar as options: tar xzf FILE. Values of such a
// cluster are the words after it, in the order of its letters.
func oldTar(args []word) []word {
	if len(args) == 0 || !args[0].fixed() || args[0].text == "" || args[0].text[0] == '-' {
		return args
	}
	var out []word
	rest := args[1:]
	for _, l := range args[0].text {
		out = append(out, literalWord("-"+string(l)))
		if strings.ContainsRune("fCbTXKNVgLFIH", l) && len(rest) > 0 {
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
	return append(out, rest...)
}
