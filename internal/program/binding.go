package program

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Kind is what an option is to somebody who looks for what decides.
type Kind byte

// The kinds of options.
const (
	Flag     Kind = iota // there is no value
	Value                // a value, attached or the next argument
	Pair                 // two values, the next arguments
	Next                 // a value that is always the next argument, wherever the letter stands
	Attached             // a value that can only be attached
	File                 // a file of instructions
	Dir                  // the directory to work in
	Inline               // the instructions themselves: no script operand
	Runs                 // a program to run
	Clear                // no value, and the environment is emptied
	Unset                // a variable to take out of it
	Split                // text that is split into further arguments
)

// Binding says how to find, in a program's arguments, the files that decide what it does. Options
// that its Spec knows are not said again: Options has both.
type Binding struct {
	Names  []string `json:"names"`
	Source string   `json:"source"` // where it was read

	Files  string `json:"files,omitempty"`  // options whose value is a file of instructions
	Inline string `json:"inline,omitempty"` // options that bring the instructions themselves
	Text   string `json:"text,omitempty"`   // options that bring instructions too, and a file of them may follow
	Runs   string `json:"runs,omitempty"`   // options whose value is a program to run
	Dirs   string `json:"dirs,omitempty"`
	Values string `json:"values,omitempty"`
	Next   string `json:"next,omitempty"`
	Attach string `json:"attached,omitempty"`
	Flags  string `json:"flags,omitempty"`
	Clear  string `json:"clear,omitempty"`
	Unset  string `json:"unset,omitempty"`
	Split  string `json:"split,omitempty"`

	Style  string `json:"style,omitempty"`
	Single bool   `json:"single,omitempty"` // long options may have one dash
	Plus   bool   `json:"plus,omitempty"`   // options may begin with "+" as well

	Live     bool     `json:"live,omitempty"`     // it may take its instructions from stdin
	Verb     string   `json:"verb,omitempty"`     // the operands count only after this one
	Script   bool     `json:"script,omitempty"`   // the first operand is a file of instructions
	All      bool     `json:"all,omitempty"`      // and so are the others
	Suffix   string   `json:"suffix,omitempty"`   // all leading operands of this ending are
	Tries    []string `json:"tries,omitempty"`    // endings that are tried when the operand is not a file
	Within   []string `json:"within,omitempty"`   // names that count when the operand is a directory
	Defaults []string `json:"defaults,omitempty"` // used when no file is named: the first that exists
	Up       bool     `json:"up,omitempty"`       // the directories above, up to the workspace, are searched for the defaults
	Wraps    bool     `json:"wraps,omitempty"`    // an operand is a program to run
	Skip     int      `json:"skip,omitempty"`     // operands before that one
	Number   bool     `json:"number,omitempty"`   // what is skipped is a number, and may be left out
	Assigns  bool     `json:"assigns,omitempty"`  // NAME=VALUE before the program sets a variable
	Follow   bool     `json:"follow,omitempty"`   // the program is bound and its own row counts
	Applets  bool     `json:"applets,omitempty"`  // many programs in one file: the name it is called by says which, or else the operand

	Letters map[string]Kind `json:"-"` // short options, which may stand together in one argument
	Longs   map[string]Kind `json:"-"` // the others, without dashes
}

// Word reports whether options are whole words: long ones may have one dash then.
func (b *Binding) Word() bool { return b.Style == StyleWord || b.Single }

// Instructions are the options whose value is program text, or names what is run, and no path.
func (b *Binding) Instructions() []string { return words(b.Inline, b.Text) }

// Binding finds the row for the file of a program, by its name with or without a version; nil: there is none.
func (t *Table) Binding(file string) *Binding {
	base := path.Base(file)
	if b := t.Bindings[base]; b != nil {
		return b
	}
	return t.Bindings[strings.TrimRight(base, "0123456789.-")]
}

// bind joins rows with what is known of the same programs, and makes rows for programs that run
// others and have none.
func (t *Table) bind(rows []*Binding) error {
	for _, row := range rows {
		if len(row.Names) == 0 || row.Source == "" {
			return fmt.Errorf("binding %v has no name or no source", row.Names)
		}
		made := map[*Spec]*Binding{}
		for _, n := range row.Names {
			if t.Bindings[n] != nil {
				return fmt.Errorf("%s is bound twice", n)
			}
			s := t.Programs[n]
			if made[s] == nil {
				b, err := row.with(s)
				if err != nil {
					return fmt.Errorf("%s: %w", n, err)
				}
				made[s] = b
			}
			t.Bindings[n] = made[s]
		}
	}
	made := map[*Spec]*Binding{}
	for _, n := range slices.Sorted(maps.Keys(t.Programs)) {
		s := t.Programs[n]
		if t.Bindings[n] != nil || s.Wrap == nil || s.Wrap.Kind == WrapCmd {
			continue
		}
		if made[s] == nil {
			// What it runs is named and not followed: nobody looked at how it runs that. Its options are those of the Spec.
			b, err := (&Binding{Names: s.Names, Source: s.Source, Live: true, Wraps: true}).with(s)
			if err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			made[s] = b
		}
		t.Bindings[n] = made[s]
	}
	return nil
}

// with is a row with the options that the program's Spec has.
func (b Binding) with(s *Spec) (*Binding, error) {
	b.Letters, b.Longs = map[string]Kind{}, map[string]Kind{}
	if s != nil {
		b.inherit(s)
	}
	own := map[string]bool{}
	for _, o := range []struct {
		list string
		kind Kind
	}{
		{b.Flags, Flag},
		{b.Values, Value},
		{b.Text, Value},
		{b.Next, Next},
		{b.Attach, Attached},
		{b.Files, File},
		{b.Dirs, Dir},
		{b.Inline, Inline},
		{b.Runs, Runs},
		{b.Clear, Clear},
		{b.Unset, Unset},
		{b.Split, Split},
	} {
		for _, name := range words(o.list) {
			if own[name] {
				return nil, fmt.Errorf("%s is two things", name)
			}
			own[name] = true
			b.put(name, o.kind)
		}
	}
	return &b, nil
}

// inherit takes over what a Spec says about options, as far as it says how many words they take,
// and how a command among the words is found.
func (b *Binding) inherit(s *Spec) {
	if s.Wrap != nil && b.Wraps {
		b.Skip, b.Assigns = max(b.Skip, s.Wrap.Skip), b.Assigns || s.Wrap.Assign
	}
	if s.Style == StyleNone || s.Style == StyleKeys || s.Style == StyleTar {
		return
	}
	if b.Style == "" && (s.Style == StyleWord || s.Style == StyleFind) {
		b.Style = StyleWord
	}
	for _, o := range s.All() {
		for _, name := range words(o.Flags) {
			b.put(name, Flag)
		}
		for _, name := range words(o.Values, o.Paths, o.Outputs, o.Scripts) {
			b.put(name, Value)
		}
		for name := range o.Match {
			b.put(name, Value)
		}
		for name, n := range o.Arity {
			if n == 2 {
				b.put(name, Pair)
			}
		}
		for _, name := range words(o.Optional) {
			b.put(name, Attached)
		}
		for _, name := range words(o.Chdir) {
			b.put(name, Dir)
		}
	}
}

// put files an option under its name: letters, or words without their dashes. Where options are
// words, a letter with an attached value is what such a word begins with, as java's -D and -X.
func (b *Binding) put(name string, k Kind) {
	bare := strings.TrimLeft(name, "-")
	switch {
	case bare == "":
	case (b.Style != StyleWord || k == Attached) && len(bare) == 1 && !strings.HasPrefix(name, "--"):
		b.Letters[bare] = k
	default:
		b.Longs[bare] = k
	}
}
