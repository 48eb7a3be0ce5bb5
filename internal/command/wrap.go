package command

import (
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/program"
)

// unwrap looks at the command that a program runs.
func (c *invocation) unwrap(s *spec) {
	c.several = c.several || s.Wrap.Feeds != "" || s.Wrap.Kind == program.WrapCmd
	if s.Wrap.Feeds != "" && c.fedHarmlessly(s) {
		c.wrapped(s)
		return
	}
	if (s.Wrap.Feeds != "" || c.name == "parallel") && !c.runsHarmless() {
		c.obey()
	}
	if s.Wrap.Floor != "" {
		c.raise(palyra.CommandClass(s.Wrap.Floor), c.name+": "+s.Why)
	}
	switch s.Wrap.Kind {
	case program.WrapShell:
		c.runShell()
	case program.WrapCmd:
		c.foreignShell()
	case program.WrapLine:
		c.joined()
	case program.WrapBuiltin:
		if c.seen["-v"] || c.seen["-V"] {
			c.raise(palyra.CommandReadOnly, "")
			return
		}
		c.wrapped(s)
	case program.WrapCommand:
		c.wrapped(s)
	default:
		c.doubt(c.name + " runs commands in an unknown way")
	}
}

// wrapped looks at the command after a wrapper's own operands.
func (c *invocation) wrapped(s *spec) {
	rest := c.operands
	for range s.Wrap.Skip {
		if len(rest) == 0 {
			c.doubt(c.name + " lacks a word")
			return
		}
		if s.Wrap.Number && rest[0].fixed() && !number(rest[0].text) { // newer versions take none
			break
		}
		if s.Wrap.Write {
			c.write(rest[0])
		}
		if s.operand != nil && (!rest[0].fixed() || !s.operand.MatchString(rest[0].text)) {
			c.doubt(c.name + " is given something unusual") // which some versions run
		}
		rest = rest[1:]
	}
	if s.Wrap.Assign {
		rest = c.assignments(rest)
	}
	if len(rest) == 0 {
		c.effect(s)
		return
	}
	if s.Wrap.Write && len(rest) == 2 && rest[0] == literalWord("-c") {
		c.inner(rest[1])
		return
	}
	if s.Wrap.Only != "" && !slices.Contains(strings.Fields(s.Wrap.Only), rest[0].text) {
		c.doubt(rest[0].text + " is not known to be a part of " + c.name)
	}
	c.command(rest, c.at, c.depth+1)
}

// number reports whether a word is a whole number.
func number(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// assignments reads NAME=VALUE before a command.
func (c *invocation) assignments(words []word) []word {
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0].text, "=")
		if !ok {
			break
		}
		if !words[0].fixed() {
			c.doubt("a variable is only known when it runs")
		}
		c.assign(name, value)
		words = words[1:]
	}
	return words
}

// assign notes a variable. Only few variables have no influence on programs.
func (r *reading) assign(name, value string) {
	re := r.tables.env[name]
	if re == nil {
		r.doubt("the variable " + name + " may change what programs do")
		return
	}
	if !re.MatchString(value) {
		r.doubt("the variable " + name + " has an unusual value")
	}
}

func (c *invocation) runShell() {
	c.shell = true
	if !c.seen["-c"] || len(c.operands) == 0 {
		c.obey()
		c.doubt(c.name + " runs a script")
		c.lookAt(c.operands)
		return
	}
	c.inner(c.operands[0])
	c.lookAt(c.operands[1:])
}

// inner reads a word that a shell gets as a line.
func (c *invocation) inner(w word) {
	if !w.fixed() {
		c.shell = true
		c.obey()
		c.doubt("the line that a shell reads is not known")
		return
	}
	c.shellLine(w.text, c.at, c.depth+1)
}

func (c *invocation) joined() {
	parts := make([]string, 0, len(c.operands))
	for _, w := range c.operands {
		if !w.fixed() {
			c.shell = true
			c.doubt("the line that a shell reads is not known")
			return
		}
		parts = append(parts, w.text)
	}
	c.shellLine(strings.Join(parts, " "), c.at, c.depth+1)
}

// foreignShell looks at the words of a shell whose rules are not known here: the line is never understood,
// but destructive commands in it are found.
func (c *invocation) foreignShell() {
	c.shell = true
	c.doubt(c.name + " has rules of its own")
	for i, w := range c.operands {
		low := strings.ToLower(w.text)
		if low != "/c" && low != "/k" && low != "-command" && low != "-c" {
			continue
		}
		var rest []word
		for _, v := range c.operands[i+1:] {
			for f := range strings.FieldsSeq(v.text) {
				rest = append(rest, literalWord(f))
			}
		}
		if len(rest) > 0 && len(rest) <= maxWords {
			c.command(rest, c.at, c.depth+1)
		}
		return
	}
}
