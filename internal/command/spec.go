package command

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"palyra"
	"palyra/internal/program"
)

// spec is one program, or one subcommand of it, ready to be used.
type spec struct {
	program.Spec
	known   map[string]option
	operand *regexp.Regexp
	subs    map[string]*spec

	obeys bool   // takes its orders from input or from a file, unless words bring them
	late  bool   // what follows its script is the script's own
	ends  string // the options that end its own, as its script does
}

// option is one option as the table knows it.
type option struct {
	arity    int
	optional bool
	role     wordRole
	raise    string
	gives    bool
	match    *regexp.Regexp
}

type wordRole int

const (
	roleText wordRole = iota
	rolePath
	roleOutput
	roleChdir
	roleScript
)

// tables are all programs by name.
type tables struct {
	programs  map[string]*spec
	env       map[string]*regexp.Regexp
	multicall []string
}

// shipped returns the tables of this program. Broken tables would leave every command unknown; a test holds
// that they are not broken.
var shipped = sync.OnceValue(func() *tables {
	t, err := compile(program.Shipped())
	if err != nil {
		return &tables{}
	}
	return t
})

func compile(known *program.Table) (*tables, error) {
	t := &tables{programs: map[string]*spec{}, env: map[string]*regexp.Regexp{}, multicall: known.Multicall}
	for name, expr := range known.Harmless {
		re, err := compileAnchored(expr)
		if err != nil {
			return nil, fmt.Errorf("command: env %s: %w", name, err)
		}
		t.env[name] = re
	}
	type row struct {
		*program.Spec
		*program.Binding
		obeys bool
	}
	made := map[row]*spec{}
	for _, name := range slices.Sorted(maps.Keys(known.Programs)) {
		b := known.Binding(name)
		of := row{Spec: known.Programs[name], obeys: obeys(known.Programs[name], b)}
		if b != nil && interprets(of.Spec, b) {
			of.Binding = b
		}
		if made[of] == nil {
			s, err := newSpec(of.Spec)
			if err != nil {
				return nil, fmt.Errorf("command: %s: %w", name, err)
			}
			s.instructions(of.Binding)
			s.obeys = of.obeys
			made[of] = s
		}
		t.programs[name] = made[of]
	}
	return t, nil
}

// interprets reports whether a row tells which words of an interpreter are program text.
func interprets(s *program.Spec, b *program.Binding) bool {
	return s.Code && s.Style == program.StyleGNU && s.Sub == nil && s.Wrap == nil && b.Style == program.StyleGNU && len(b.Instructions()) > 0
}

// obeys reports whether a program takes its orders from input: a row says that it may, and it is no wrapper. Make and
// its like are told by a file of theirs and do so only when an option says it.
func obeys(s *program.Spec, b *program.Binding) bool {
	foreign := s.Wrap != nil && s.Wrap.Kind == program.WrapCmd
	return s.Code && s.Class != string(palyra.CommandBuild) && (foreign || b != nil && b.Live && !b.Wraps)
}

// named finds a program by its name. An interpreter may have its version behind it, as in python3.12; another program of such
// a name is another one.
func (t *tables) named(name string) *spec {
	if s := t.programs[name]; s != nil {
		return s
	}
	if s := t.programs[strings.TrimRight(name, "0123456789.-")]; s != nil && s.obeys && s.Wrap == nil {
		return s
	}
	return nil
}

// instructions takes over from a row which options bring program text, which is no path. The value of any other
// option may be one.
func (s *spec) instructions(b *program.Binding) {
	if b == nil {
		return
	}
	s.late = b.Script && !b.All
	if len(s.Modules) > 0 {
		s.ends = b.Inline
	}
	put := func(name string, k program.Kind) {
		if _, known := s.known[name]; known {
			return
		}
		switch k {
		case program.Flag:
			s.known[name] = option{}
		case program.Attached:
			s.known[name] = option{optional: true}
		default:
			s.known[name] = option{arity: 1, role: rolePath}
		}
	}
	for letter, k := range b.Letters {
		put("-"+letter, k)
	}
	for long, k := range b.Longs {
		put("--"+long, k)
	}
	for _, name := range b.Instructions() {
		s.known[name] = option{arity: 1, role: roleScript, raise: raiseCode}
	}
}

func newSpec(p *program.Spec) (*spec, error) {
	for _, c := range []string{p.Class, p.Bare} {
		if c != "" && rank(palyra.CommandClass(c)) < 0 {
			return nil, fmt.Errorf("there is no class %q", c)
		}
	}
	s := &spec{Spec: *p, known: map[string]option{}, subs: map[string]*spec{}}
	for _, o := range p.All() {
		if err := addOptions(s.known, o); err != nil {
			return nil, err
		}
	}
	if p.Operand != "" {
		re, err := compileAnchored(p.Operand)
		if err != nil {
			return nil, err
		}
		s.operand = re
	}
	for _, name := range slices.Sorted(maps.Keys(p.Sub)) {
		sub, err := newSpec(p.Sub[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.subs[name] = sub
	}
	return s, nil
}

// addOptions files options under their names.
func addOptions(known map[string]option, o program.Options) error {
	put := func(list string, v option) {
		for name := range strings.FieldsSeq(list) {
			known[name] = v
		}
	}
	put(o.Flags, option{})
	put(o.Values, option{arity: 1})
	put(o.Optional, option{optional: true})
	put(o.Paths, option{arity: 1, role: rolePath})
	put(o.Outputs, option{arity: 1, role: roleOutput})
	put(o.Chdir, option{arity: 1, role: roleChdir})
	put(o.Scripts, option{arity: 1, role: roleScript})
	return detail(known, o)
}

func detail(known map[string]option, o program.Options) error {
	for name := range strings.FieldsSeq(o.Gives) {
		v := known[name]
		v.gives = true
		known[name] = v
	}
	for name, n := range o.Arity {
		v := known[name]
		v.arity = n
		known[name] = v
	}
	for name, expr := range o.Match {
		re, err := compileAnchored(expr)
		if err != nil {
			return err
		}
		v := known[name]
		v.arity, v.match = max(v.arity, 1), re
		if v.optional {
			v.arity = 0
		}
		known[name] = v
	}
	for class, list := range o.Raise {
		if class != raiseCode && rank(palyra.CommandClass(class)) < 0 {
			return fmt.Errorf("there is no class %q", class)
		}
		for name := range strings.FieldsSeq(list) {
			v := known[name]
			v.raise = class
			known[name] = v
		}
	}
	return nil
}

const raiseCode = "code"

// compileAnchored compiles an expression that must match all of a text.
func compileAnchored(expr string) (*regexp.Regexp, error) {
	return regexp.Compile(`^(?:` + expr + `)$`)
}

// standsFor reports whether a program called by name may really be the file.
func (t *tables) standsFor(name, file string) bool {
	if slices.Contains(t.multicall, file) {
		return true
	}
	s := t.programs[name]
	if s == nil {
		return false
	}
	return slices.ContainsFunc(s.Files, func(pattern string) bool {
		ok, err := path.Match(pattern, file)
		return err == nil && ok
	})
}
