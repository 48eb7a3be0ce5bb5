package layers

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// cellLength is as much as a cell of a table can hold and still be read. More is text.
const cellLength = 400

// longCells finds cells that are too long. trusted-names.md is made from data: its cells are lists.
func longCells(name, doc string) []string {
	if path.Base(name) == "trusted-names.md" {
		return nil
	}
	var bad []string
	for _, r := range rows(doc) {
		for _, c := range r {
			if n := len([]rune(c)); n > cellLength {
				bad = append(bad, fmt.Sprintf("%s: a cell of %d characters, at most %d: %s…", name, n, cellLength, c[:60]))
			}
		}
	}
	return bad
}

func TestCellsCanBeRead(t *testing.T) {
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) < 8 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	top, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(docs, top...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range longCells(name, string(b)) {
			t.Error(v)
		}
	}
}

func TestCellsCanBeReadFires(t *testing.T) {
	table := func(n int) string { return "| a | b |\n|---|---|\n| x | " + strings.Repeat("ä", n) + " |\n" }
	if got := longCells("d.md", table(cellLength+1)); len(got) != 1 {
		t.Errorf("too long: %q", got)
	}
	if got := longCells("d.md", table(cellLength)+"\n"+strings.Repeat("text ", 200)); got != nil {
		t.Errorf("long enough: %q", got)
	}
}
