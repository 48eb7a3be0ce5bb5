package syntax

import "strings"

// Nearest returns the words that a mistyped one may have meant: those a few letters away, else
// those that share a part of it.
func Nearest(typed string, words []string) []string {
	var near, related []string
	part, _, _ := strings.Cut(typed, ".")
	for _, w := range words {
		switch {
		case distance(typed, w) <= 2:
			near = append(near, w)
		case part != "" && strings.Contains(w, part):
			related = append(related, w)
		}
	}
	if near != nil {
		return near
	}
	return related
}

// Meant asks whether another word was meant than the one that was typed; empty where none is near.
func Meant(typed string, words []string) string {
	near := Nearest(typed, words)
	if len(near) == 0 || len(near) > mostMeant {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// mostMeant is how many words may have been meant.
const mostMeant = 3

// distance is how many letters must be inserted, removed or changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
