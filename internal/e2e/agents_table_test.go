//go:build agents

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is what came of one scene.
type row struct {
	way     string
	scene   string
	took    time.Duration
	given   []result
	verdict string
}

// table is what all ways came to. Each row is also a file: what the model was given,
// call by call, as it stood on the wire.
type table struct {
	dir  string
	mu   sync.Mutex
	rows []row
}

func newTable(t *testing.T) *table {
	t.Helper()
	dir, err := filepath.Abs("../../bin/agents")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &table{dir: dir}
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// add keeps a row and writes its file.
func (b *table) add(t testing.TB, r row) {
	t.Helper()
	var text strings.Builder
	for _, g := range r.given {
		fmt.Fprintln(&text, g.Raw)
	}
	name := filepath.Join(b.dir, r.way, notPlain.ReplaceAllString(strings.ToLower(r.scene), "-")+".jsonl")
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(text.String()), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, r)
}

// write puts the rows into table.md, those of each way together.
func (b *table) write(t *testing.T) {
	slices.SortStableFunc(b.rows, func(x, y row) int { return strings.Compare(x.way, y.way) })
	var text strings.Builder
	fmt.Fprintln(&text, "| way | case | seconds | bytes given, call by call | the last of them | verdict |\n|---|---|---|---|---|---|")
	for _, r := range b.rows {
		var sizes []string
		last := ""
		for _, g := range r.given {
			last = strings.Join(g.Texts, "")
			sizes = append(sizes, strconv.Itoa(len(last)))
		}
		if runes := []rune(last); len(runes) > 150 {
			last = string(runes[:100]) + " … " + string(runes[len(runes)-40:])
		}
		fmt.Fprintf(&text, "| %s | %s | %.1f | %s | `%s` | %s |\n", r.way, r.scene, r.took.Seconds(), strings.Join(sizes, ", "),
			strings.NewReplacer("|", "\\|", "`", "'").Replace(strconv.Quote(last)), r.verdict)
	}
	fmt.Println("\n" + text.String())
	if err := os.WriteFile(filepath.Join(b.dir, "table.md"), []byte(text.String()), 0o644); err != nil {
		t.Error(err)
	}
}
