package approval

import (
	"strings"

	"palyra"
)

// listFilter gathers the conditions of a list.
type listFilter struct {
	terms []string
	args  []any
}

type column struct{ name, value string }

func (w *listFilter) add(term string, args ...any) {
	w.terms = append(w.terms, term)
	w.args = append(w.args, args...)
}

// state adds the condition on the decision. The texts are the ones the partial indexes are made for.
func (w *listFilter) state(f palyra.ApprovalFilter) {
	switch {
	case f.Answer != palyra.AnswerPending:
		w.add("decision <> '' AND decision = ?", f.Answer)
	case f.Pending:
		w.add("decision = ''")
	}
}

// columns adds equality conditions: the first set one plainly, so that it leads
// the index, the rest in a form whose text does not depend on what is set.
func (w *listFilter) columns(list []column) {
	led := false
	for _, c := range list {
		if c.value != "" && !led {
			led = true
			w.add(c.name+" = ?", c.value)
			continue
		}
		w.add("(? = '' OR "+c.name+" = ?)", c.value, c.value)
	}
}

// query returns the list of keys in the span, one more than the limit.
func (w *listFilter) query(table, at string, s span, oldest bool, limit int, tag string) query {
	w.add("("+at+", id) > (?, ?)", s.low, s.lowID)
	w.add("("+at+", id) < (?, ?)", s.high, s.highID)
	dir := ""
	if !oldest {
		dir = " DESC"
	}
	text := "SELECT id FROM " + table + " WHERE " + strings.Join(w.terms, " AND ") +
		" ORDER BY " + at + dir + ", id" + dir + " LIMIT ?"
	return query{text: text, args: append(w.args, limit+1), limit: limit, tag: tag}
}
