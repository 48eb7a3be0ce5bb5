package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// printsFoundNames reports whether a pipe brings nothing but names of files that a program found below the
// paths of its own words: find, fd and git ls-files print those, unless they are told to print another text;
// sort, head and tail pass some of them on.
func printsFoundNames(s *syntax.Stmt) bool {
	if s == nil || s.Background || s.Coprocess || s.Disown || s.Negated || len(s.Redirs) > 0 && !onlyOut(s.Redirs) {
		return false
	}
	if b, ok := s.Cmd.(*syntax.BinaryCmd); ok {
		return b.Op == syntax.Pipe && printsFoundNames(b.X) && passesLinesOn(b.Y)
	}
	words, ok := fixedWords(s)
	if !ok {
		return false
	}
	switch words[0] {
	case "find":
		return !slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains([]string{"-printf", "-ls", "-fls", "-fprintf", "-exec", "-execdir", "-ok", "-okdir"}, w)
		})
	case "fd", "fdfind":
		return !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "--format") })
	case "git":
		return len(words) > 1 && words[1] == "ls-files" && !slices.ContainsFunc(words, func(w string) bool {
			return strings.HasPrefix(w, "--f") || strings.HasPrefix(w, "-s") || w == "--stage"
		})
	}
	return false
}

// passesLinesOn reports whether a program passes lines on as they are.
func passesLinesOn(s *syntax.Stmt) bool {
	if s == nil || s.Negated || len(s.Redirs) > 0 {
		return false
	}
	words, ok := fixedWords(s)
	return ok && slices.Contains([]string{"sort", "head", "tail"}, words[0]) &&
		!slices.ContainsFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") && !digits(w) }) // or it reads a file
}

// onlyOut reports whether redirections leave input as it is.
func onlyOut(list []*syntax.Redirect) bool {
	return !slices.ContainsFunc(list, func(r *syntax.Redirect) bool {
		return r.Op != syntax.RdrOut && r.Op != syntax.AppOut && r.Op != syntax.DplOut
	})
}

// fixedWords are the words of a simple command, where all of them are known.
func fixedWords(s *syntax.Stmt) ([]string, bool) {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Assigns) > 0 || len(c.Args) == 0 || len(c.Args) > maxWords {
		return nil, false
	}
	var out []string
	for _, a := range c.Args {
		w := shellWord(a)
		if !w.fixed() {
			return nil, false
		}
		out = append(out, w.text)
	}
	return out, true
}

// pipe looks at both ends of a pipe. A reading end that adds its input to its words is told when that input
// is names of files that the other end found.
func (l *line) pipe(c *syntax.BinaryCmd) {
	if _, simple := c.X.Cmd.(*syntax.CallExpr); !simple {
		b, pipe := c.X.Cmd.(*syntax.BinaryCmd)
		l.jumbled = l.jumbled || !pipe || b.Op != syntax.Pipe // both ends run at once
	}
	l.stmt(c.X)
	if words, ok := fixedWords(c.Y); ok && words[0] == "xargs" && onlyOut(c.Y.Redirs) && printsFoundNames(c.X) {
		l.fed = true
	}
	l.stmt(c.Y)
	l.fed = false
}

// fedHarmlessly reports whether a program only adds names of files to the words of another program that no
// word can make do harm.
func (c *invocation) fedHarmlessly(s *spec) bool {
	if !c.fed || len(c.operands) == 0 || !c.operands[0].fixed() {
		return false
	}
	plain := strings.Fields(s.Wrap.Feeds)
	for name := range c.seen {
		if !slices.Contains(plain, name) {
			return false
		}
	}
	return c.runsHarmless()
}

// runsHarmless reports whether the program that a wrapper runs is one that no word can make do harm.
func (c *invocation) runsHarmless() bool {
	if len(c.operands) == 0 {
		return c.name == "xargs" // which runs echo then
	}
	runs := c.tables.programs[c.operands[0].text]
	return c.operands[0].fixed() && runs != nil && runs.Harmless && runs.Wrap == nil && len(runs.Sub) == 0 &&
		slices.Contains([]string{argsPaths, argsPattern, argsText}, runs.Args)
}
