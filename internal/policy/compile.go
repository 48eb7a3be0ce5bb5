package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"palyra"
)

// MaxNote bounds @reason and @remedy, which go to agents and prompts.
const MaxNote = 512

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

// Compile makes a bundle of the files of one that was in force, which hold their schema. The guard is for
// defects of the library: hostile text must not end the daemon.
func Compile(files map[string]string) (*Bundle, error) {
	return compileWithin(context.Background(), files)
}

// compileWithin is Compile with a ctx that can end it between two policies.
func compileWithin(ctx context.Context, files map[string]string) (b *Bundle, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, bundleError(Problem{File: schemaFile, Line: 1, Column: 1, Text: fmt.Sprintf("the policies cannot be compiled: %v", r)})
		}
	}()
	b = &Bundle{files: files, byID: map[cedar.PolicyID]*rule{}}
	if b.digest, err = Sum(files); err != nil {
		return nil, err
	}
	model, err := resolve(files[schemaFile])
	if err != nil {
		return nil, err
	}
	b.valid, b.actions = validate.New(model, validate.WithStrict()), actionEntities(model)
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, cedarSuffix) {
			problems = append(problems, b.add(ctx, name, files[name])...)
		}
	}
	if ctx.Err() != nil { // half a bundle must not come into force
		return nil, bundleError(
			Problem{File: ".", Line: 1, Column: 1, Text: "the policies were not read to their end: interrupted, or it took too long"})
	}
	var more []Problem
	b.members, more = readEntities(files[entitiesFile])
	problems = append(problems, more...)
	if len(problems) == 0 && len(b.rules) == 0 {
		problems = append(problems, Problem{File: ".", Line: 1, Column: 1, Text: "the bundle holds no policy, which would deny everything"})
	}
	if len(problems) > 0 {
		return nil, bundleError(problems...)
	}
	b.preset = PresetOf(b.digest)
	if err := b.imply(); err != nil {
		return nil, err
	}
	b.index = b.newIndex()
	return b, nil
}

func resolve(text string) (*resolved.Schema, error) {
	var s schema.Schema
	s.SetFilename(schemaFile)
	if err := s.UnmarshalCedar([]byte(text)); err != nil {
		return nil, bundleError(parseProblem(schemaFile, err, statement{line: 1, column: 1}))
	}
	r, err := s.Resolve()
	if err != nil {
		return nil, bundleError(parseProblem(schemaFile, err, statement{line: 1, column: 1}))
	}
	return r, nil
}

// add parses, names and checks the policies of one file.
func (b *Bundle) add(ctx context.Context, name, text string) []Problem {
	places, p := scan(text)
	if p != nil {
		p.File = name
		return []Problem{*p}
	}
	list, err := cedar.NewPolicyListFromBytes(name, []byte(text))
	if err != nil {
		return syntaxProblems(name, text, err, places)
	}
	if len(list) != len(places) { // the two readings of the text must agree, or positions lie
		return []Problem{{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("%d policies in %d statements", len(list), len(places))}}
	}
	if len(b.rules)+len(list) > maxPolicies {
		return []Problem{{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("more than %d policies", maxPolicies)}}
	}
	var problems []Problem
	for i, policy := range list {
		if ctx.Err() != nil {
			break
		}
		r, wrong := b.names(policy)
		problems = append(problems, wrong...)
		if len(wrong) == 0 {
			b.rules = append(b.rules, r)
			b.byID[r.id] = r
		}
		if err := b.valid.Policy("", (*ast.Policy)(policy.AST())); err != nil {
			problems = append(problems, explainInvalid(r.hit, err, text, places[i])...)
		}
	}
	return problems
}

// name gives a policy the identity it says it has: ids in journals must not
// change their meaning when a file is edited.
func (b *Bundle) name(p *cedar.Policy) (*rule, *Problem) {
	r, wrong := b.names(p)
	if len(wrong) > 0 {
		return nil, &wrong[0]
	}
	return r, nil
}

// names is name that also returns every problem. With a problem the rule is only good for messages about it.
func (b *Bundle) names(p *cedar.Policy) (*rule, []Problem) {
	pos, notes := p.Position(), p.Annotations()
	var wrong []Problem
	fail := func(format string, args ...any) {
		wrong = append(wrong, Problem{File: pos.Filename, Line: pos.Line, Column: pos.Column, Text: fmt.Sprintf(format, args...)})
	}
	id := string(notes["id"])
	other := b.byID[cedar.PolicyID(id)]
	switch {
	case id == "":
		fail(`the policy has no @id("NAME")`)
	case !validID.MatchString(id):
		fail("@id %q: only letters, digits and . _ : / - are allowed, at most 128", palyra.Clip(id, 64))
	case other != nil:
		fail("@id %q is already used at %s:%d", id, other.hit.File, other.hit.Line)
	}
	for _, note := range []string{string(notes["reason"]), string(notes["remedy"])} {
		if len(note) > MaxNote || !utf8.ValidString(note) || strings.ContainsFunc(note, unprintable) {
			fail("@reason and @remedy must be printable text of at most %d bytes", MaxNote)
			break
		}
	}
	if len(wrong) > 0 {
		id = palyra.Clip(strings.Map(onlyPrintable, id), 64)
	}
	return newRule(id, p), wrong
}

// effectWord is what a policy does, as records say it.
func effectWord(p *cedar.Policy) string {
	if p.Effect() == cedar.Permit {
		return "permit"
	}
	return "forbid"
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// onlyPrintable removes characters that could draw on a screen.
func onlyPrintable(r rune) rune {
	if unprintable(r) {
		return '?'
	}
	return r
}

// actionEntities are the schema's actions with the groups they stand in.
func actionEntities(s *resolved.Schema) cedar.EntityMap {
	m := make(cedar.EntityMap, len(s.Actions))
	for uid, a := range s.Actions {
		m[uid] = a.Entity
	}
	return m
}

var position = regexp.MustCompile(`(?:parse error at )?(?:<input>|` + regexp.QuoteMeta(schemaFile) + `):(\d+):(\d+):? *`)

// parseProblem makes a problem of a parser's error, at the place that the error names, else at the statement.
func parseProblem(file string, err error, s statement) Problem {
	text := strings.TrimPrefix(err.Error(), "parser error: ")
	p := Problem{File: file, Line: s.line, Column: s.column}
	if m := position.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1])
		column, _ := strconv.Atoi(m[2])
		if line > 0 && column > 0 { // between tokens the scanner knows no place
			p.Line, p.Column = line, column
		}
		text = strings.Replace(text, m[0], "", 1)
	}
	p.Text = palyra.Clip(text, 256)
	return p
}

var quotedWord = regexp.MustCompile("`([A-Za-z_][A-Za-z0-9_.]*)[^`]*`")

// explainInvalid places each type error at the first use of the name it
// complains about, or at the policy's start where it names none. The checker
// goes through every action the policy may speak about; one complaint is
// reported for one of them.
func explainInvalid(h palyra.PolicyHit, err error, text string, s statement) []Problem {
	var out []Problem
	lines := distinct(strings.Split(err.Error(), "\n"))
	lines = slices.CompactFunc(lines, func(a, b string) bool { return complaint(a) == complaint(b) })
	if len(lines) > 1 { // a scope that names something unknown applies to nothing: say only what is unknown
		lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "unable to find an applicable action") })
	}
	for _, line := range lines {
		p := Problem{File: h.File, Line: h.Line, Column: h.Column, Text: strings.TrimPrefix(h.ID+": ", ": ") + palyra.Clip(line, 256)}
		if m := quotedWord.FindStringSubmatch(line); m != nil {
			p.Line, p.Column = find(text, s, m[1])
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return out
}

// complaint is a type error without the place it was found for.
func complaint(line string) string {
	if i := strings.Index(line, " in context for "); i >= 0 {
		return line[:i]
	}
	return line
}

// find returns where name's last part first stands in the statement.
func find(text string, s statement, name string) (line, column int) {
	name = name[strings.LastIndexByte(name, '.')+1:]
	body := text[s.offset:s.end]
	m := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).FindStringIndex(body)
	if m == nil {
		return s.line, s.column
	}
	c := scanner{src: body, line: s.line, column: s.column}
	c.skip(m[0])
	return c.line, c.column
}
