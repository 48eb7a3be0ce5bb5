package command

import (
	"slices"
	"strings"

	"palyra"
	"palyra/internal/program"
)

// Kinds of operands that a program takes.
const (
	argsNone    = ""        // there must be none
	argsText    = "text"    // words that mean no file
	argsPaths   = "paths"   // files that are read
	argsPattern = "pattern" // a text, then files that are read
	argsScript  = "script"  // a text in the program's own language, then files that are read
	argsNames   = "names"   // words that make something of that name, unless an option says that they are looked for
	argsWrites  = "writes"  // files that are made or written
	argsTest    = "test"    // an expression of test(1), with files in some places
	argsRemoves = "removes" // files that go away
	argsCopies  = "copies"  // files that are read, the last is written
	argsMoves   = "moves"   // files that go away, the last is written
)

// checkOperands looks at the operands by their kind.
func (c *invocation) checkOperands(s *spec) {
	n := len(c.operands)
	if n < s.Min || s.Max > 0 && n > s.Max {
		c.doubt(c.name + " is given an unusual number of words")
	}
	for _, w := range c.operands {
		if s.Max > 0 && w.glob >= 0 {
			c.doubt("a pattern may be more words than " + c.name + " is to be given")
		}
		if w.loose && !(s.Harmless && s.Args == argsText) {
			c.doubt("a word of " + c.name + " is only known when it runs")
		}
		if s.operand != nil && (!w.fixed() || !s.operand.MatchString(w.text)) {
			c.doubt(c.name + " is given something unusual")
		}
	}
	c.byKind(s)
}

func (c *invocation) byKind(s *spec) {
	ops := c.operands
	switch s.Args {
	case argsText:
	case argsPattern, argsScript:
		if !c.given && len(ops) > 0 {
			c.scripts, ops = append(c.scripts, ops[0]), ops[1:]
		}
		c.languages(s)
		c.doubtLateOptions(s, ops)
		c.lookAt(ops)
	case argsNames:
		if len(ops) > 0 && !c.given {
			c.raise(palyra.CommandWrite, c.name+" makes "+ops[0].text)
		}
	case argsPaths:
		c.lookAt(ops)
	case argsTest:
		c.testAll(ops)
	case argsWrites:
		c.writeAll(ops)
	case argsRemoves:
		c.removeAll(ops)
	case argsCopies, argsMoves:
		c.transfer(ops, s.Args == argsMoves)
	case argsNone:
		if len(ops) > 0 {
			c.doubt(c.name + " takes no such words")
		}
	default:
		c.doubt(c.name + " has operands of an unknown kind")
	}
}

// doubtLateOptions doubts options behind the first operand of a program that has a language of its own: some
// versions take them for options all the same.
func (c *invocation) doubtLateOptions(s *spec, ops []word) {
	if s.Style == program.StylePosix && slices.ContainsFunc(ops, word.dashed) {
		c.doubt(c.name + " is given options late")
	}
}

func (c *invocation) lookAt(ops []word) {
	for _, w := range ops {
		c.noteRead(w, c.at)
	}
}

// testAll looks at the words that may be files in an expression of test. How many words there are decides which of
// them are operators; here each that can be one is taken for one, so that no file is missed.
func (c *invocation) testAll(ops []word) {
	for i, w := range ops {
		if !w.fixed() || len(w.text) < 2 || w.text[0] != '-' {
			continue
		}
		name := w.text[1:]
		between := name == "nt" || name == "ot" || name == "ef"
		if i+1 < len(ops) && (between || len(name) == 1 && strings.Contains("bcdefghkLNOGprsSuwx", name)) {
			c.noteRead(ops[i+1], c.at)
		}
		if i > 0 && between {
			c.noteRead(ops[i-1], c.at)
		}
	}
}

func (c *invocation) writeAll(ops []word) {
	for _, w := range ops {
		c.write(w)
	}
}

// transfer handles copies and moves: the last word is written, unless an option named the directory.
func (c *invocation) transfer(ops []word, moves bool) {
	if !c.given {
		if len(ops) < 2 {
			c.doubt(c.name + " lacks a destination")
			return
		}
		c.write(ops[len(ops)-1])
		ops = ops[:len(ops)-1]
	}
	if moves {
		c.removeAll(ops)
		return
	}
	c.lookAt(ops)
}

// removeAll notes files that go away. The workspace itself, directories around it, a repository's own files
// and files outside cannot be brought back from here.
func (c *invocation) removeAll(ops []word) {
	short := 0
	for _, w := range ops {
		p := c.anchor(w, c.at)
		c.raise(palyra.CommandWrite, c.name+" removes "+w.text)
		begins := w.begins()
		if begins == 1 && p.root {
			short++ // a* b* c* and so on are the whole
		}
		deep := c.seen["-r"] || c.seen["-R"] || c.seen["--recursive"]
		switch {
		case p.root && (p.outside || begins < 0 || deep && begins < 2 || short > 1):
			c.raise(palyra.CommandDestructive, w.text+" is the whole workspace or more")
		case p.git:
			c.raise(palyra.CommandDestructive, w.text+" holds a repository's history")
		case p.outside && !p.scratch:
			c.raise(palyra.CommandDestructive, w.text+" is outside the workspace")
		}
	}
}

// languages checks texts in a program's own language.
func (c *invocation) languages(s *spec) {
	if len(c.scripts) == 0 && s.Args == argsScript {
		c.doubt(c.name + " is not told what to do")
	}
	for _, w := range c.scripts {
		switch {
		case s.Language == "" && s.Args == argsPattern:
		case !w.fixed():
			c.doubt("the text that " + c.name + " runs is not known")
		case s.Language == "sed" && plainSed(w.text), s.Language == "awk" && plainAwk(w.text), s.Language == "jq" && plainJq(w.text),
			s.Language == "yq" && plainYq(w.text):
		default:
			c.doubt("the text that " + c.name + " runs may write or run something")
		}
	}
}
