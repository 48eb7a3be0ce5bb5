// Package program is what is known of programs, once: what their words make them do, which files
// decide what they do, which variables change that. It is data, in table/*.json, each row with the
// manual it was read from, and the little code that reads it.
//
// Two readers stand on it, and both err on the safe side, each on its own. The one that judges a
// command by its words (internal/command) takes what is not here for unknown. The one that binds what
// a program interprets (internal/tool/process) takes what is not here for a file that may count. So a
// row may be short; it must not be wrong.
package program

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed table/*.json
var tableFiles embed.FS

// The ways in which programs write options.
const (
	StyleGNU   = ""      // -abV, --long=V, anywhere before --
	StylePosix = "posix" // the same, before the first operand only
	StyleWord  = "word"  // -long V, -long=V, no clusters; --long is the same
	StyleFind  = "find"  // whole words only, anywhere, and -- is none
	StyleNone  = "none"  // there are no options
	StyleKeys  = "keys"  // NAME=VALUE
	StyleTar   = "tar"   // as GNU, and the first word is a cluster even without a dash
	StyleApart = "apart" // as GNU, but values of letters are the words after the cluster and never stand in it
)

// The ways in which programs run the command among their words.
const (
	WrapCommand = "command" // the words that are left
	WrapBuiltin = "builtin" // the same; with -v it only tells
	WrapLine    = "line"    // the words that are left, joined, as a line for a shell
	WrapShell   = "shell"   // a shell: -c LINE
	WrapCmd     = "cmd"     // a shell with rules of its own, which are not read here
)

// Options says which options there are. Lists are separated by spaces.
type Options struct {
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

// Spec is what the words of a program, or of one of its subcommands, make it do.
type Spec struct {
	Options
	Names    []string         `json:"names,omitempty"`
	Source   string           `json:"source,omitempty"` // where it was read
	Files    []string         `json:"files,omitempty"`  // patterns of files that are this program too
	Use      []string         `json:"use,omitempty"`    // sets of options
	Class    string           `json:"class,omitempty"`  // without anything that raises it
	Bare     string           `json:"bare,omitempty"`   // without any word, where that is more
	Why      string           `json:"why,omitempty"`
	Style    string           `json:"style,omitempty"`
	Numeric  bool             `json:"numeric,omitempty"`
	Args     string           `json:"args,omitempty"`    // what operands are, see operand.go of internal/command
	Operand  string           `json:"operand,omitempty"` // expression that operands must match
	Min      int              `json:"min,omitempty"`
	Max      int              `json:"max,omitempty"`
	Exact    []string         `json:"exact,omitempty"`    // only this word: a look
	Modules  []string         `json:"modules,omitempty"`  // -m NAME runs the program of that name
	Here     bool             `json:"here,omitempty"`     // runs by what the directory it stands in says
	Code     bool             `json:"code,omitempty"`     // runs code that the words or the workspace bring
	Harmless bool             `json:"harmless,omitempty"` // none of its options writes or runs anything
	Language string           `json:"language,omitempty"` // of its first operand or Scripts
	Sub      map[string]*Spec `json:"sub,omitempty"`
	Wrap     *Wrap            `json:"wrap,omitempty"`
	Look     *Look            `json:"look,omitempty"` // how it only looks

	sets []Options
}

// All are the options of a program: those of the sets it uses, then its own.
func (s *Spec) All() []Options { return append(slices.Clone(s.sets), s.Options) }

// Look says which options make a program that writes otherwise only look: one of With
// is there, and beside those nothing but Only. What it would write is then read.
type Look struct {
	With string `json:"with"`
	Only string `json:"only,omitempty"`
}

// Wrap says how a program runs the command among its operands.
type Wrap struct {
	Kind   string `json:"kind"`
	Skip   int    `json:"skip,omitempty"`   // operands before the command
	Number bool   `json:"number,omitempty"` // what is skipped is a number, and may be left out
	Write  bool   `json:"write,omitempty"`  // the skipped ones are written
	Assign bool   `json:"assign,omitempty"` // NAME=VALUE may stand before it
	Floor  string `json:"floor,omitempty"`  // the least class
	Only   string `json:"only,omitempty"`   // programs that it has in itself and that are read as those of the system
	Feeds  string `json:"feeds,omitempty"`  // adds words that it reads; with no options but these where they come from is told
}

// Refusal is a set of environment names and why no call may set them. A star stands for
// anything at the beginning or the end of a name.
type Refusal struct {
	Why     string   `json:"why"`
	Names   string   `json:"names"`              // separated by spaces
	Ours    bool     `json:"ours,omitempty"`     // whoever runs the program sets them itself: no profile may either
	Except  []string `json:"except,omitempty"`   // that the pattern matches and that are harmless
	AnyCase bool     `json:"any_case,omitempty"` // programs read the name in any case
}

// Table is all that is known.
type Table struct {
	Programs  map[string]*Spec
	Bindings  map[string]*Binding // of programs of which something decides what they do
	Harmless  map[string]string   // variables, and the expression of values that have no say in what programs run
	Refused   []Refusal           // variables that make a program run or load something else than its arguments say
	Multicall []string            // files that are many programs
	Beyond    []string            // programs that reach other machines, act as somebody else or start what no sandbox of ours holds
}

// file is one file of table/.
type file struct {
	About     string             `json:"about"`
	Sets      map[string]Options `json:"sets,omitempty"`
	Harmless  map[string]string  `json:"harmless,omitempty"`
	Source    string             `json:"source,omitempty"` // of Refused
	Refused   []Refusal          `json:"refused,omitempty"`
	Multicall []string           `json:"multicall,omitempty"`
	Beyond    []string           `json:"beyond,omitempty"`
	Programs  []*Spec            `json:"programs,omitempty"`
	Bindings  []*Binding         `json:"bindings,omitempty"`
}

// Shipped returns the table of this program. Were it broken, nothing would be
// understood; a test holds that it is not.
var Shipped = sync.OnceValue(func() *Table {
	t, err := Load(tableFiles)
	if err != nil {
		return &Table{}
	}
	return t
})

// Load reads table/*.json.
func Load(files fs.FS) (*Table, error) {
	names, err := fs.Glob(files, "table/*.json")
	if err != nil {
		return nil, fmt.Errorf("program: table: %w", err)
	}
	t := &Table{Programs: map[string]*Spec{}, Bindings: map[string]*Binding{}, Harmless: map[string]string{}}
	var rows []*Binding
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("program: table: %w", err)
		}
		more, err := t.add(data)
		if err != nil {
			return nil, fmt.Errorf("program: table: %s: %w", path.Base(name), err)
		}
		rows = append(rows, more...)
	}
	if err := t.bind(rows); err != nil {
		return nil, fmt.Errorf("program: table: %w", err)
	}
	return t, nil
}

func (t *Table) add(data []byte) ([]*Binding, error) {
	var f file
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	if len(f.Refused) > 0 && f.Source == "" {
		return nil, fmt.Errorf("the refused variables have no source")
	}
	t.Multicall = append(t.Multicall, f.Multicall...)
	t.Beyond = append(t.Beyond, f.Beyond...)
	t.Refused = append(t.Refused, f.Refused...)
	maps.Copy(t.Harmless, f.Harmless)
	for _, s := range f.Programs {
		if len(s.Names) == 0 || s.Source == "" {
			return nil, fmt.Errorf("program %v has no name or no source", s.Names)
		}
		if err := s.resolve(f.Sets); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Names[0], err)
		}
		for _, n := range s.Names {
			if t.Programs[n] != nil {
				return nil, fmt.Errorf("%s is there twice", n)
			}
			t.Programs[n] = s
		}
	}
	return f.Bindings, nil
}

// resolve finds the sets that a program and its subcommands use.
func (s *Spec) resolve(sets map[string]Options) error {
	for _, name := range s.Use {
		set, ok := sets[name]
		if !ok {
			return fmt.Errorf("there is no set %q", name)
		}
		s.sets = append(s.sets, set)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sub)) {
		if err := s.Sub[name].resolve(sets); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// words splits a list.
func words(lists ...string) []string { return strings.Fields(strings.Join(lists, " ")) }
