package trusted

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed names.txt
var shipped string

// list is the table of this program. A broken one would leave files open that have
// to be held, so nothing goes on without it; a test holds that it is whole.
var list = sync.OnceValue(func() []Name {
	names, err := parse(shipped)
	if err != nil {
		panic(err)
	}
	return names
})

// The words of the table.
var (
	categories = []Category{VersionControl, Shell, Packages, Editor, Hooks, CI, Agent, Credentials, Own}
	cares      = []string{Held: "held", Noted: "noted", Asked: "asked"}
	bases      = []Basis{Read, Seen, Sought}
)

// reader reads a table line by line.
type reader struct {
	names    []Name
	category Category
	group    *Name // the group that lines belong to, without a name
	empty    bool  // the group has no name yet
	seen     map[string]bool
	ended    bool // the table has said how many names there are
}

// parse reads a table as names.txt explains it. It refuses what it does not know,
// what says too little and what is there twice.
func parse(text string) ([]Name, error) {
	r := reader{seen: map[string]bool{}}
	number := 0
	for line := range strings.Lines(text + "\n\n") { // the last group ends here, too
		number++
		if err := r.line(strings.TrimRight(line, "\r\n")); err != nil {
			return nil, fmt.Errorf("trusted: table: line %d: %w", number, err)
		}
	}
	if !r.ended {
		return nil, fmt.Errorf("trusted: table: it has no end")
	}
	return r.names, nil
}

func (r *reader) line(line string) error {
	text, indented := strings.CutPrefix(line, "  ")
	switch {
	case strings.HasPrefix(line, "#"):
		return nil
	case line == "":
		if r.group != nil && r.empty {
			return fmt.Errorf("%q has no names", r.group.By)
		}
		r.group = nil
		return nil
	case r.ended:
		return fmt.Errorf("comes after the end")
	case line != strings.TrimRight(line, " \t"):
		return fmt.Errorf("ends in a blank")
	case indented && r.group == nil:
		return fmt.Errorf("belongs to no group")
	case indented && r.group.Basis == "":
		return r.source(text)
	case indented && r.group.Basis == Sought && r.group.Tried == "":
		return r.tried(text)
	case indented:
		return r.add(strings.Split(text, " "))
	case r.group != nil:
		return fmt.Errorf("begins a group where the last one has not ended")
	case line[0] == '[':
		i := slices.IndexFunc(categories, func(c Category) bool { return line == "["+string(c)+"]" })
		if i < 0 {
			return fmt.Errorf("%s is no category", line)
		}
		r.category = categories[i]
		return nil
	}
	if n, ok := strings.CutPrefix(line, "end: "); ok {
		if r.ended = n == strconv.Itoa(len(r.names)); !r.ended {
			return fmt.Errorf("says that there are %s names, and there are %d", n, len(r.names))
		}
		return nil
	}
	return r.begin(line)
}

// begin reads the first line of a group.
func (r *reader) begin(line string) error {
	care, by, _ := strings.Cut(line, ": ")
	c := slices.Index(cares, care)
	if r.category == "" || c < 0 || by == "" {
		return fmt.Errorf("%q does not say, below a category, what is done about names that who obeys", line)
	}
	r.group, r.empty = &Name{Category: r.category, Care: Care(c), By: by}, true
	return nil
}

// source reads where a group is known from.
func (r *reader) source(text string) error {
	basis, page, _ := strings.Cut(text, ": ")
	if !slices.Contains(bases, Basis(basis)) || page == "" {
		return fmt.Errorf("%q does not say where the names are known from", text)
	}
	r.group.Basis, r.group.Source = Basis(basis), page
	return nil
}

// tried reads where names were looked for that were not found.
func (r *reader) tried(text string) error {
	place, ok := strings.CutPrefix(text, "tried: ")
	if !ok || place == "" {
		return fmt.Errorf("%q does not say what was tried", text)
	}
	r.group.Tried = place
	return nil
}

// add adds names to the list.
func (r *reader) add(names []string) error {
	for _, n := range names {
		if n == "" || n[0] == '/' || strings.ContainsAny(n, ":\t\\") {
			return fmt.Errorf("%q is no name", n)
		}
		if r.seen[n] {
			return fmt.Errorf("%s is there twice", n)
		}
		r.seen[n], r.empty = true, false
		one := *r.group
		one.Name = n
		r.names = append(r.names, one)
	}
	return nil
}
