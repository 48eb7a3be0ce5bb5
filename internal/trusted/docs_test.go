package trusted

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/trusted-names.md anew")

const doc = "../../docs/trusted-names.md"

// The document is the list: it has no name that is not on it, and no other words
// about one.
func TestDocumentIsTheList(t *testing.T) {
	want := document()
	if *update {
		if err := os.WriteFile(doc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(doc)
	if err != nil || string(got) != want {
		t.Errorf("docs/trusted-names.md is not made from the list (%v): run go test ./internal/trusted -run Document -update", err)
	}
}

// document is the list for people: a table for each category, a row for each group.
func document() string {
	var b strings.Builder
	b.WriteString(preface)
	count := map[Basis]int{}
	for _, n := range list() {
		count[n.Basis]++
	}
	fmt.Fprintf(&b, "Of %d names, %d are from documentation, %d were seen in use, and %d were looked for and not found.\n",
		len(list()), count[Read], count[Seen], count[Sought])
	var order []Category
	tables := map[Category]*strings.Builder{}
	names := slices.Clone(list())
	for len(names) > 0 {
		n, row := names[0], 1
		for row < len(names) && same(names[row], n) {
			row++
		}
		table := tables[n.Category]
		if table == nil {
			table = new(strings.Builder)
			tables[n.Category] = table
			order = append(order, n.Category)
		}
		for _, cell := range cells(names[:row]) {
			fmt.Fprintf(table, "| %s | %s | %s | %s, %s |\n", cell, n.By, cares[n.Care], link(n.Source), n.Basis)
		}
		names = names[row:]
	}
	for _, c := range order {
		fmt.Fprintf(&b, "\n## %s%s\n\nActs %s.\n\n", strings.ToUpper(string(c[:1])), c[1:], when(c))
		b.WriteString("| names | obeyed by | care | source |\n|---|---|---|---|\n" + tables[c].String())
	}
	b.WriteString("\n## Looked for and not found\n\nThese stay, since it costs little to hold them.\n\n| names | looked at |\n|---|---|\n" +
		missing())
	return b.String()
}

// missing are the names that no page was found for, with what was looked at.
func missing() string {
	var b strings.Builder
	names := slices.DeleteFunc(slices.Clone(list()), func(n Name) bool { return n.Basis != Sought })
	for len(names) > 0 {
		row := 1
		for row < len(names) && same(names[row], names[0]) {
			row++
		}
		for _, cell := range cells(names[:row]) {
			fmt.Fprintf(&b, "| %s | %s: %s |\n", cell, link(names[0].Source), names[0].Tried)
		}
		names = names[row:]
	}
	return b.String()
}

// maxCell is how long a cell of a table may be: longer ones nobody reads.
const maxCell = 400

// cells are names as the cells of one row, or of as many as it takes.
func cells(names []Name) []string {
	var out []string
	for _, n := range names {
		quoted := "`" + n.Name + "`"
		if last := len(out) - 1; last >= 0 && len(out[last])+1+len(quoted) <= maxCell {
			out[last] += " " + quoted
			continue
		}
		out = append(out, quoted)
	}
	return out
}

// Nobody reads a cell that fills a screen.
func TestCellsAreShort(t *testing.T) {
	for line := range strings.Lines(document()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(line, "|") {
			if len(cell) > maxCell+2 {
				t.Errorf("a cell has %d characters: %.60s…", len(cell), cell)
			}
		}
	}
}

// same reports whether two names are of one group.
func same(a, b Name) bool {
	a.Name = b.Name
	return a == b
}

// when is when files of a category act, unless their group says otherwise.
func when(c Category) string {
	switch c {
	case VersionControl, Packages, Credentials:
		return "when the program is called in the directory"
	case Shell:
		return "when a shell enters the directory or starts there"
	case Editor:
		return "when the directory is opened, or the program is started there"
	case Hooks:
		return "at a commit, checkout, merge or push"
	case CI:
		return "once it is pushed"
	case Agent:
		return "when an agent is started in the directory"
	case Own:
		return "before every call in the directory"
	}
	return ""
}

// link is an address as people read it.
func link(source string) string {
	if strings.HasPrefix(source, "https://") {
		return fmt.Sprintf("[%s](%s)", strings.TrimSuffix(strings.TrimPrefix(source, "https://"), "/"), source)
	}
	return source
}

const preface = `# Trusted names

Files and directories of a project that other programs obey without being asked to: what git, shells, editors, hook managers, package managers, CI systems and agents read as soon as somebody
works there. What an agent writes there runs later, with the rights of whoever comes by. This is the whole list that sandboxes seal by and policy guards by; it is made from ` +
	"`internal/trusted`" + ` and held to it by a test
(` + "`go test ./internal/trusted -run Document -update`" + ` writes it anew).

A name fits at any depth, in any case, and with everything below it where it is a directory. A star stands for any characters, two for any number of directories, ` + "`<repository>`" + ` for a directory
that git takes for a repository. One that ends in a slash is a directory whose content may change, while it may neither appear nor go. Below ` + "`node_modules`" + ` only git's own count.

| care | a run | a file tool |
|---|---|---|
| held | cannot change it, and what it makes anew is taken away | asks, every time |
| noted | may write it, as ordinary work does; the outcome says so (names of one part) | asks, every time |
| asked | makes such files in plenty, and none of them commands anything alone | asks, every time |

What an act runs that asks for nothing of the kind (entering a directory, ` + "`git status`" + `, a commit, opening an editor, starting an agent or a debugger, a push) is here, and what makes a program run another or
send credentials elsewhere before it looks at the project. What people run knowingly is not: ` + "`Makefile`, `package.json`, `build.rs`, `conftest.py`, `gradlew`, `eslint.config.js`" + ` and what else configures bundlers,
linters, formatters and test runners, lock files ([threats.md](threats.md) says what that means).

The last column says where a claim comes from: *documentation* is the page that is named, or the program's own text; *seen in use* is others who work with the program; *looked for, not found* is neither:
the page is where it should stand, and the last table says what was looked at. A program that is not here was not thought of.

`
