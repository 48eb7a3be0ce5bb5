package audit

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/store"
)

// row is the content that a table must have for a key: the columns in the order of its table.
type row struct {
	seq    int64
	may    bool // it may also be gone
	values []any
}

// table is one that is held: its key, and the columns that follow from the journal, each as an expression.
type table struct {
	name, key string
	columns   []string
}

// errFound ends a walk early.
var errFound = errors.New("found")

// hold compares every row of a table with the row that must stand there.
func (t table) hold(tx *store.Tx, want map[string]row) (f *palyra.Finding, err error) {
	text := make([]string, 0, len(t.columns)+1)
	for _, c := range append([]string{t.key}, t.columns...) {
		text = append(text, fmt.Sprintf("typeof(%s)||':'||CAST(%s AS TEXT)", c, c))
	}
	query := fmt.Sprintf("SELECT %s FROM %s", strings.Join(text, ", "), t.name)
	seen := make(map[string]bool, len(want))
	err = tx.Each(query, nil, func(scan func(...any) error) error {
		have := make([]*string, len(t.columns)+1)
		dest := make([]any, len(have))
		for i := range have {
			dest[i] = &have[i]
		}
		if err := scan(dest...); err != nil {
			return err
		}
		k := columnText(have[0])
		w, ok := want[k]
		if !ok {
			f = finding(0, "%s has a row of which the journal says nothing: %s", t.name, keyText(k))
			return errFound
		}
		seen[k] = true
		for i, c := range t.columns {
			if is, must := columnText(have[i+1]), columnValue(w.values[i]); is != must {
				f = finding(w.seq, "%s of %s in %s is not what the journal says", c, keyText(k), t.name)
				return errFound
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if f == nil && !seen[k] && !want[k].may {
			f = finding(want[k].seq, "%s lacks a row of which the journal speaks: %s", t.name, keyText(k))
		}
	}
	return f, nil
}

// columnText is a column's type and text; NULL is its own.
func columnText(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// columnValue is a value as the store would give it.
func columnValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "text:" + v
	case bool:
		if v {
			return "integer:1"
		}
		return "integer:0"
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.String { // a word with a type of its own
		return "text:" + r.String()
	}
	return fmt.Sprintf("integer:%d", v)
}

// keyText is a key for people.
func keyText(k string) string {
	_, text, _ := strings.Cut(k, ":")
	return fmt.Sprintf("%.80q", text)
}

// str is a value of a string type as a string.
func str[T ~string](v T) string { return string(v) }
