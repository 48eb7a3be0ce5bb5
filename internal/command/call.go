package command

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"palyra"
)

// invocation is one program with its words. It writes into the reading it is part of.
type invocation struct {
	*reading
	name     string
	at       scope
	depth    int
	operands []word
	scripts  []word
	seen     map[string]bool
	build    bool // writes below the workspace anyway
	given    bool // an option gave what is the first operand otherwise
	reads    []word
	outputs  []word
}

// apply reads the words after a program, or after a subcommand of one.
func (c *invocation) apply(s *spec, args []word) {
	if c.describesItself(s, args) || c.module(s, args) {
		return
	}
	if s.Bare != "" && len(args) == 0 {
		c.raise(palyra.CommandClass(s.Bare), c.name+" alone: "+meaning(palyra.CommandClass(s.Bare)))
	}
	before := c.strayed
	c.build = palyra.CommandClass(s.Class) == palyra.CommandBuild
	c.seen = map[string]bool{}
	c.parse(s, args)
	if s.Here && !c.at.inWorkspace() {
		c.doubt(c.name + " takes its configuration from outside the workspace")
	}
	switch {
	case s.Wrap != nil:
		c.place(before)
		c.unwrap(s)
	case len(s.Sub) > 0:
		c.place(before)
		c.subcommand(s)
	default:
		c.effect(c.readOnlySpec(s))
		c.checkOperands(s)
		c.place(before)
	}
}

// readOnlySpec is the program's spec when its options make it only look.
func (c *invocation) readOnlySpec(s *spec) *spec {
	if s.Look == nil {
		return s
	}
	with, only := strings.Fields(s.Look.With), strings.Fields(s.Look.Only)
	found := false
	for name := range c.seen {
		is := slices.Contains(with, name)
		if !is && !slices.Contains(only, name) {
			return s
		}
		found = found || is
	}
	if !found {
		return s
	}
	c.reads, c.outputs = append(c.reads, c.outputs...), nil
	other := *s
	other.Class = string(palyra.CommandReadOnly)
	return &other
}

// describesItself reports whether the few words are there that make any program only say something about itself.
func (c *invocation) describesItself(s *spec, args []word) bool {
	if len(args) != 1 || !args[0].fixed() || !slices.Contains(s.Exact, args[0].text) {
		return false
	}
	c.raise(palyra.CommandReadOnly, "")
	return true
}

// module handles python -m NAME, which runs another program that is known.
func (c *invocation) module(s *spec, args []word) bool {
	if len(s.Modules) == 0 || len(args) < 2 || args[0] != literalWord("-m") || !args[1].fixed() {
		return false
	}
	if !slices.Contains(s.Modules, args[1].text) {
		return false
	}
	c.command(args[1:], c.at, c.depth+1)
	return true
}

// effect notes what the program does under any words.
func (c *invocation) effect(s *spec) {
	if s.Code {
		c.code = true
	}
	if s.Code && s.class() == palyra.CommandBuild && c.saves {
		c.obey() // a build runs the files of the workspace, and what was fetched may be one
	}
	class, why := s.class(), s.Why
	if c.asked && c.name == "git push" {
		class, why = palyra.CommandWrite, "is asked about by itself when it leaves"
	}
	if why == "" {
		why = meaning(class)
	}
	if why != "" {
		why = c.name + ": " + why
	}
	if c.raise(class, why) || c.sub == "" {
		_, c.sub, _ = strings.Cut(c.name, " ")
	}
}

// class is that of the program under any words.
func (s *spec) class() palyra.CommandClass {
	return cmp.Or(palyra.CommandClass(s.Class), palyra.CommandUnknown)
}

// meaning says for people what a class means.
func meaning(c palyra.CommandClass) string {
	switch c {
	case palyra.CommandReadOnly:
		return ""
	case palyra.CommandBuild:
		return "runs the workspace's own code"
	case palyra.CommandWrite:
		return "changes files"
	case palyra.CommandDestructive:
		return "cannot be taken back, or reaches beyond this machine"
	case palyra.CommandUnknown:
	}
	return "its words do not tell what it does"
}

// subcommand reads the words after a subcommand by its own table.
func (c *invocation) subcommand(s *spec) {
	if len(c.operands) == 0 {
		c.effect(s)
		return
	}
	first := c.operands[0]
	sub := s.subs[first.text]
	if sub == nil || !first.fixed() {
		c.doubt(c.name + " " + first.text + " is not known")
		return
	}
	next := &invocation{reading: c.reading, name: c.name + " " + first.text, at: c.at, depth: c.depth}
	next.apply(sub, c.operands[1:])
}

// place anchors the paths that options gave. A build that leaves the workspace is no longer the workspace's own.
func (c *invocation) place(before int) {
	for _, w := range c.reads {
		c.noteRead(w, c.at)
	}
	for _, w := range c.outputs {
		c.write(w)
	}
	if c.build && (c.strayed > before || !c.at.inWorkspace()) {
		c.doubt(c.name + " is given something outside the workspace")
	}
	if c.build && c.at.inRepository() {
		c.doubt(c.name + " builds inside a repository's own files")
	}
}

// products are the endings of files that builds and tests leave behind.
var products = []string{"", ".out", ".prof", ".test", ".cov", ".exe", ".so", ".a", ".o", ".wasm", ".bin", ".trace"}

// isProductName reports whether a file that a build is told to write has the name of a product. Any other
// name may be a source file, which the build would overwrite.
func isProductName(name string) bool {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	return slices.Contains(products, strings.ToLower(path.Ext(base))) && !isWorkName(base)
}

// workNames are names without an ending that build tools and git look for.
var workNames = []string{
	"configure", "gradlew", "mvnw", "bootstrap", "autogen", "wscript", "sconstruct", "sconscript", "waf", "dune", "pants",
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "post-rewrite", "reference-transaction", "fsmonitor-watchman",
	"post-index-change",
}

// isWorkName reports whether a name without an ending is one that people give to their own files: Makefile,
// LICENSE, gradlew.
func isWorkName(base string) bool {
	low := strings.ToLower(base)
	shouted := len(base) > 2 && strings.ToUpper(base) == base && low != base
	return path.Ext(base) == "" && (shouted || strings.HasSuffix(low, "file") || slices.Contains(workNames, low))
}

// write notes a file that is written.
func (c *invocation) write(w word) {
	if !w.fixed() {
		c.doubt("the command writes a file that it does not name")
		return
	}
	if standsForNoFile(w.text) && w.text != "-" { // to most that is a file of this name
		return
	}
	c.saves = true
	p := c.noteWritten(w, c.at)
	if !c.build || p.hidden || !isProductName(w.text) {
		c.raise(palyra.CommandWrite, c.name+" writes "+w.text)
	}
	if p.device && !p.scratch {
		c.raise(palyra.CommandDestructive, w.text+" is a device")
	}
}
