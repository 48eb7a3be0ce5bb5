package command

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"palyra"
)

//go:embed table/*.json
var tableFiles embed.FS

// options says which options there are. Lists are separated by spaces.
type options struct {
	Flags    string            `json:"flags,omitempty"`    // take no value
	Values   string            `json:"values,omitempty"`   // take one: -xV, -x V, --x=V, --x V
	Optional string            `json:"optional,omitempty"` // may take one: -xV, --x=V
	Paths    string            `json:"paths,omitempty"`    // take a path that is read
	Outputs  string            `json:"outputs,omitempty"`  // take a path that is written
	Chdir    string            `json:"chdir,omitempty"`    // take the directory to work in
	Scripts  string            `json:"scripts,omitempty"`  // take a text in the program's own language
	Gives    string            `json:"gives,omitempty"`    // give what is the first operand otherwise
	Arity    map[string]int    `json:"arity,omitempty"`    // take more than one word
	Match    map[string]string `json:"match,omitempty"`    // expressions that values must match
	Raise    map[string]string `json:"raise,omitempty"`    // class, or "code", to options that make it that
}

// spec is one program, or one subcommand of it.
type spec struct {
	options
	Names    []string         `json:"names,omitempty"`
	Source   string           `json:"source,omitempty"` // where it was read
	Files    []string         `json:"files,omitempty"`  // patterns of files that are this program too
	Use      []string         `json:"use,omitempty"`    // sets of options
	Class    string           `json:"class,omitempty"`  // without anything that raises it
	Bare     string           `json:"bare,omitempty"`   // without any word, where that is more
	Why      string           `json:"why,omitempty"`
	Style    string           `json:"style,omitempty"` // how options are written, see options.go
	Numeric  bool             `json:"numeric,omitempty"`
	Args     string           `json:"args,omitempty"`    // what operands are, see operand.go
	Operand  string           `json:"operand,omitempty"` // expression that operands must match
	Min      int              `json:"min,omitempty"`
	Max      int              `json:"max,omitempty"`
	Exact    []string         `json:"exact,omitempty"`    // only this word: a look
	Modules  []string         `json:"modules,omitempty"`  // -m NAME runs the program of that name
	Here     bool             `json:"here,omitempty"`     // runs by what the directory it stands in says
	Code     bool             `json:"code,omitempty"`     // runs code that the words or the workspace bring
	Harmless bool             `json:"harmless,omitempty"` // none of its options writes or runs anything
	Language string           `json:"language,omitempty"` // of its first operand or Scripts
	Sub      map[string]*spec `json:"sub,omitempty"`
	Wrap     *wrap            `json:"wrap,omitempty"`
	Look     *look            `json:"look,omitempty"` // how it only looks

	known   map[string]option
	operand *regexp.Regexp
}

// look says which options make a program that writes otherwise only look: one of With
// is there, and beside those nothing but Only. What it would write is then read.
type look struct {
	With string `json:"with"`
	Only string `json:"only,omitempty"`
}

// wrap says how a program runs the command among its operands.
type wrap struct {
	Kind   string `json:"kind"`             // command, line, shell, cmd, applet, builtin
	Skip   int    `json:"skip,omitempty"`   // operands before the command
	Write  bool   `json:"write,omitempty"`  // the skipped ones are written
	Assign bool   `json:"assign,omitempty"` // NAME=VALUE may stand before it
	Floor  string `json:"floor,omitempty"`  // the least class
	Only   string `json:"only,omitempty"`   // programs that it has in itself and that are read as those of the system
	Feeds  string `json:"feeds,omitempty"`  // adds words that it reads; with no options but these where they come from is told
}

// option is one option as the tables know it.
type option struct {
	arity    int
	optional bool
	role     role
	raise    string
	gives    bool
	match    *regexp.Regexp
}

type role int

const (
	roleText role = iota
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

// tableFile is one file of table/.
type tableFile struct {
	About     string             `json:"about"`
	Sets      map[string]options `json:"sets,omitempty"`
	Env       map[string]string  `json:"env,omitempty"`
	Multicall []string           `json:"multicall,omitempty"`
	Programs  []*spec            `json:"programs,omitempty"`
}

// shipped returns the tables of this program. Were they broken, nothing would be
// understood; a test holds that they are not.
var shipped = sync.OnceValue(func() *tables {
	t, err := loadTables(tableFiles)
	if err != nil {
		return &tables{}
	}
	return t
})

func loadTables(files fs.FS) (*tables, error) {
	names, err := fs.Glob(files, "table/*.json")
	if err != nil {
		return nil, fmt.Errorf("command: tables: %w", err)
	}
	t := &tables{programs: map[string]*spec{}, env: map[string]*regexp.Regexp{}}
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("command: tables: %w", err)
		}
		if err := t.add(data); err != nil {
			return nil, fmt.Errorf("command: tables: %s: %w", path.Base(name), err)
		}
	}
	return t, nil
}

func (t *tables) add(data []byte) error {
	var f tableFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return err
	}
	t.multicall = append(t.multicall, f.Multicall...)
	for name, expr := range f.Env {
		re, err := whole(expr)
		if err != nil {
			return fmt.Errorf("env %s: %w", name, err)
		}
		t.env[name] = re
	}
	for _, s := range f.Programs {
		if err := t.addProgram(s, f.Sets); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) addProgram(s *spec, sets map[string]options) error {
	if len(s.Names) == 0 || s.Source == "" {
		return fmt.Errorf("program %v has no name or no source", s.Names)
	}
	if err := s.compile(sets); err != nil {
		return fmt.Errorf("%s: %w", s.Names[0], err)
	}
	for _, n := range s.Names {
		if t.programs[n] != nil {
			return fmt.Errorf("%s is there twice", n)
		}
		t.programs[n] = s
	}
	return nil
}

func (s *spec) compile(sets map[string]options) error {
	for _, c := range []string{s.Class, s.Bare} {
		if c != "" && rank(palyra.CommandClass(c)) < 0 {
			return fmt.Errorf("there is no class %q", c)
		}
	}
	s.known = map[string]option{}
	for _, name := range s.Use {
		set, ok := sets[name]
		if !ok {
			return fmt.Errorf("there is no set %q", name)
		}
		if err := set.into(s.known); err != nil {
			return err
		}
	}
	if err := s.into(s.known); err != nil {
		return err
	}
	if s.Operand != "" {
		re, err := whole(s.Operand)
		if err != nil {
			return err
		}
		s.operand = re
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sub)) {
		if err := s.Sub[name].compile(sets); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// into files the options under their names.
func (o options) into(known map[string]option) error {
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
	return o.detail(known)
}

func (o options) detail(known map[string]option) error {
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
		re, err := whole(expr)
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

// whole compiles an expression that must match all of a text.
func whole(expr string) (*regexp.Regexp, error) { return regexp.Compile(`^(?:` + expr + `)$`) }

// standsFor tells that a program called by name may really be the file.
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
