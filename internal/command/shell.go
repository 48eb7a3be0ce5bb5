package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"palyra"
)

// maxNested bounds how deeply the parser can be led.
const maxNested = 512

// line is one line that a shell reads.
type line struct {
	*reading
	at    scope
	sure  bool // what follows runs only if this succeeds
	depth int
}

// shellLine reads a line as a shell would. Only what POSIX shells and bash take alike is understood.
func (r *reading) shellLine(text string, at scope, depth int) {
	r.shell = true
	if depth > maxDepth {
		r.doubt("commands are nested too deeply")
		return
	}
	if len(text) > maxScript || strings.Count(text, "(") > maxNested || strings.ContainsFunc(text, unprintable) {
		r.doubt("the line is too long or has unusual characters")
		return
	}
	if strings.Contains(text, "\\\n") && (strings.Contains(text, "#") || strings.Contains(text, "<<")) {
		r.doubt("the line goes on after a comment or in a text of its own") // which the parser and shells read differently
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		r.doubt("the line cannot be read")
		return
	}
	l := &line{reading: r, at: at, depth: depth}
	r.several = r.several || !single(file)
	if len(file.Stmts) == 0 {
		r.doubt("the line runs nothing")
	}
	l.stmts(file.Stmts)
}

// single reports whether a line is one simple command that runs in any case.
func single(file *syntax.File) bool {
	if len(file.Stmts) != 1 {
		return false
	}
	_, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	return ok
}

func unprintable(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c == '\uFFFD' }

func (l *line) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		l.stmt(s)
	}
}

func (l *line) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	if s.Background || s.Coprocess || s.Disown {
		l.doubt("something goes on in the background")
		l.jumbled = true
	}
	for _, rd := range s.Redirs {
		l.redirect(rd)
	}
	l.cmd(s.Cmd)
}

// cmd looks at one command of the grammar. Loops, functions, declarations, tests and arithmetic are not
// followed; the commands inside loops are looked at all the same, to find destructive ones.
func (l *line) cmd(c syntax.Command) {
	switch c := c.(type) {
	case *syntax.CallExpr:
		l.simple(c)
	case *syntax.BinaryCmd:
		if c.Op == syntax.PipeAll {
			l.doubt("some shells do not accept the line")
		}
		if c.Op == syntax.Pipe {
			l.pipe(c)
			break
		}
		if c.Op == syntax.AndStmt {
			l.chain(c)
			break
		}
		l.stmt(c.X)
		l.stmt(c.Y)
	case *syntax.Subshell:
		l.stmts(c.Stmts)
	case *syntax.Block:
		l.stmts(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			l.stmts(c.Cond)
			l.stmts(c.Then)
		}
	case *syntax.TimeClause:
		l.timed(c)
	case nil:
		l.doubt("nothing is run")
	default:
		l.doubt("the line has parts that are not followed")
		l.search(c)
	}
}

// chain looks at commands of which each runs only after the one before it succeeded: after a cd the old directory is left.
// After the chain the shell may stand wherever it came by.
func (l *line) chain(c *syntax.BinaryCmd) {
	stmts := []*syntax.Stmt{c.Y}
	first := c.X
	for x, ok := chained(first); ok; x, ok = chained(first) {
		stmts, first = append(stmts, x.Y), x.X
	}
	seen := slices.Clone(l.at.dirs)
	for _, s := range slices.Backward(append(stmts, first)) {
		_, call := s.Cmd.(*syntax.CallExpr)
		l.sure = call && !s.Negated && !s.Background
		l.stmt(s)
		for _, d := range l.at.dirs {
			if !slices.Contains(seen, d) {
				seen = append(seen, d)
			}
		}
	}
	if l.at.dirs, l.sure = seen, false; len(seen) > maxDirs {
		l.doubt("the directory is not known")
	}
}

// chained is the chain that a statement consists of.
func chained(s *syntax.Stmt) (*syntax.BinaryCmd, bool) {
	c, ok := s.Cmd.(*syntax.BinaryCmd)
	return c, ok && c.Op == syntax.AndStmt && !s.Negated && !s.Background && !s.Coprocess && !s.Disown && len(s.Redirs) == 0
}

// timed looks at a timed command: to some shells time is a program, which cannot run functions or builtins.
func (l *line) timed(c *syntax.TimeClause) {
	if c.Stmt == nil {
		l.doubt("nothing is timed")
		return
	}
	call, ok := c.Stmt.Cmd.(*syntax.CallExpr)
	if !ok || c.Stmt.Negated || len(call.Assigns) > 0 {
		l.doubt("some shells do not accept the line")
	}
	l.stmt(c.Stmt)
}

// search looks for destructive commands in a part that is not understood.
func (l *line) search(n syntax.Node) {
	l.several, l.jumbled = true, true // words found here are not operands of a command that is known to run
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok {
			l.simple(c) // which goes on into its words
			return false
		}
		return true
	})
}

// simple looks at a simple command.
func (l *line) simple(c *syntax.CallExpr) {
	if l.commands > maxCommands {
		l.doubt("there are too many commands")
		return
	}
	for _, a := range c.Assigns {
		l.assignment(a)
	}
	if len(c.Args) == 0 {
		l.commands++
		l.doubt("a variable of the shell is set")
		return
	}
	if len(c.Args) > maxWords {
		l.doubt("the command is too long to be looked at")
		return
	}
	words := make([]word, 0, len(c.Args))
	for _, a := range c.Args {
		w := shellWord(a)
		if w.loose && !onlyVariables(a) {
			l.doubt("a word is the output of another command, or as unusual")
			l.search(a)
		}
		words = append(words, w)
	}
	if words[0] == literalWord("cd") {
		l.cd(words[1:])
		return
	}
	l.command(words, l.at, l.depth+1)
}

func (l *line) assignment(a *syntax.Assign) {
	if a.Append || a.Naked || a.Index != nil || a.Array != nil || a.Name == nil {
		l.doubt("a variable is set in an unusual way")
		return
	}
	value := literalWord("")
	if a.Value != nil {
		value = shellWord(a.Value)
		l.search(a.Value)
	}
	if !value.fixed() {
		l.doubt("a variable is only known when it runs")
	}
	l.assign(a.Name.Value, value.text)
}

// cd follows a change of directory. It may fail, so the old directory stays possible, but for what runs only after it.
func (l *line) cd(args []word) {
	l.raise(palyra.CommandReadOnly, "")
	if len(args) == 2 && args[0] == literalWord("--") {
		args = args[1:]
	}
	if len(args) != 1 || !args[0].fixed() || args[0].dashed() || args[0].text == "-" || args[0].text == "" {
		l.doubt("the directory is not known")
		return
	}
	l.noteWritten(args[0], l.at)
	at, ok := l.at.enter(args[0].text, l.sure)
	if !ok {
		l.doubt("the directory is not known")
	}
	l.at = at
}

// redirect looks at where input comes from and output goes to.
func (l *line) redirect(rd *syntax.Redirect) {
	if rd.N != nil && (!digits(rd.N.Value) || len(rd.N.Value) > 1) {
		l.doubt("a redirection has an unusual number")
	}
	if rd.Hdoc != nil && !literal(rd.Hdoc) {
		l.doubt("a text is only known when it runs")
		l.search(rd.Hdoc)
	}
	if rd.Word == nil {
		l.doubt("a redirection leads nowhere")
		return
	}
	w := shellWord(rd.Word)
	if !w.fixed() || strings.HasPrefix(w.text, "/dev/tcp") || strings.HasPrefix(w.text, "/dev/udp") {
		l.doubt("the target of a redirection is not known")
		l.search(rd.Word)
		return
	}
	l.redirectTo(rd.Op, w)
}

func (l *line) redirectTo(op syntax.RedirOperator, w word) {
	switch op {
	case syntax.Hdoc, syntax.DashHdoc:
	case syntax.RdrIn:
		l.noteRead(w, l.at)
	case syntax.DplIn, syntax.DplOut:
		if w.text != "-" && (!digits(w.text) || len(w.text) > 1) {
			l.doubt("the target of a redirection is not known")
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob:
		c := &invocation{reading: l.reading, name: "the shell", at: l.at}
		c.write(w)
	default: // to POSIX shells `a &>b c` is two commands
		l.doubt("a redirection is unusual")
	}
}
