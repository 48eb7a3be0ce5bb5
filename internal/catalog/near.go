package catalog

import (
	"slices"
	"strings"
)

const maxNear = 3

// nearest returns the names most like the one asked for: those that end like it
// or contain it, then those that few changes of letters lead to.
func nearest[S ~string](asked S, names []S) []string {
	type candidate struct {
		name string
		far  int
	}
	var found []candidate
	fold := strings.NewReplacer("_", "", "-", "", ".", "")
	want := fold.Replace(string(asked))
	for _, one := range names {
		name := string(one)
		short := name[strings.LastIndexByte(name, '.')+1:]
		have := fold.Replace(name)
		far := min(distance(string(asked), name), distance(string(asked), short)+1)
		if len(want) >= 3 && strings.Contains(have, want) {
			far = 0
		}
		if far <= max(2, len(asked)/3) {
			found = append(found, candidate{name, far})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.far - b.far })
	var near []string
	for _, c := range found[:min(maxNear, len(found))] {
		near = append(near, c.name)
	}
	return near
}

// distance counts the letters to change, add or drop. Both texts are short: a longer one is as far away as can be.
func distance(a, b string) int {
	const most = 128
	if len(a) > most || len(b) > most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
