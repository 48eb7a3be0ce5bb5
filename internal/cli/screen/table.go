package screen

import (
	"slices"
	"time"
	"unicode/utf8"

	"palyra/internal/show"
)

// spare are the columns that a narrow terminal can do without, in the order in which they are left
// out; --json has them.
var spare = []string{
	"ADDED BY", "UID", "PUBLIC KEY", "RETIRED", "SURFACE", "DOOR", "PROVIDER", "ENDED", "CLOSED", "PAIRED", "CERTIFICATE", "SCOPES",
	"WORKSPACES", "USES LEFT",
	"PROPOSED", "PRINCIPAL", "ASKED BY", "CAPABILITIES", "FOR", "OWNER", "ADDED", "CREATED", "STARTED", "LAST USED", "SEPARATION", "FROM",
}

// narrowCell is how short a cell may become before a column is left out, and lastCell the same for
// the last one, which says the most.
const (
	narrowCell = 12
	lastCell   = 22
)

// fitted returns a table that fits a terminal, and the widths of its columns; columns is 0 without
// a terminal. The first column, which names the thing in other commands, stays whole.
func fitted(header []string, rows [][]string, columns int) ([]string, [][]string, []int) {
	if columns <= 0 {
		return header, rows, nil
	}
	header, rows = slices.Clone(header), slices.Clone(rows)
	for _, name := range spare {
		i := slices.Index(header, name)
		if i <= 0 || total(least(header, natural(header, rows))) <= columns {
			continue
		}
		header = slices.Delete(header, i, i+1)
		for r, row := range rows {
			if i < len(row) {
				rows[r] = slices.Delete(slices.Clone(row), i, i+1)
			}
		}
	}
	widths := natural(header, rows)
	floor := least(header, widths)
	for total(widths) > columns {
		longest := -1
		for i := 1; i < len(widths); i++ {
			if widths[i] > floor[i] && (longest < 0 || widths[i] > widths[longest]) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		widths[longest]--
	}
	return header, rows, widths
}

// narrow is an escaped cell of at most n characters. A time loses its year and its seconds, other text its middle.
func narrow(safe string, n int) string {
	runes := []rune(safe)
	if len(runes) <= n {
		return safe
	}
	if at, err := time.Parse(time.RFC3339, safe); err == nil {
		return at.UTC().Format("01-02 15:04")
	}
	room := max(n-3, 2)
	tail := room / 3
	return string(runes[:room-tail]) + "..." + string(runes[len(runes)-tail:])
}

// natural returns the widths that the columns need.
func natural(header []string, rows [][]string) []int {
	out := make([]int, len(header))
	for i, h := range header {
		out[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			if i < len(out) {
				out[i] = max(out[i], utf8.RuneCountInString(show.Middle(c, CellWidth)))
			}
		}
	}
	return out
}

// least returns the smallest widths of the columns.
func least(header []string, widths []int) []int {
	out := slices.Clone(widths)
	for i := 1; i < len(out); i++ {
		most := narrowCell
		if i == len(out)-1 {
			most = lastCell
		}
		out[i] = min(out[i], max(most, utf8.RuneCountInString(header[i])))
	}
	return out
}

// total is the width of a line, with two blanks between columns.
func total(widths []int) int {
	n := 2 * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}
