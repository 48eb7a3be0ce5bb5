package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"palyra/internal/show"
)

// cellWidth is where a cell of a table loses its middle; `show` and --json have
// it whole.
const cellWidth = 120

// summaryColumn and summaryField hold a call's summary, which is the daemon's own text.
const (
	summaryColumn = "SUMMARY"
	summaryField  = "Summary"
)

// table prints rows under a header. Every cell goes through show. On a terminal it fits:
// columns that are needed least are left out, and the longest cells lose their middle.
func table(w io.Writer, header []string, rows [][]string) {
	header, rows, widths := fitted(header, rows, width(w))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = show.Middle(c, cellWidth)
			if i < len(header) && header[i] == summaryColumn {
				cells[i] = safeMiddle(c, cellWidth)
			}
			if i < len(widths) {
				cells[i] = narrow(cells[i], widths[i])
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush()
}

// safeLine is text of the daemon's own on one line. The daemon has made outside text in
// it safe already, so that its backslashes are escapes: escaped again they would say
// something else. Where anything in it is not safe all of it is shown as outside text.
func safeLine(s string) string {
	if escaped(s) {
		return s
	}
	return show.Line(s)
}

// safeMiddle is safeLine of about n characters.
func safeMiddle(s string, n int) string {
	if escaped(s) {
		return show.MiddleOf(s, n)
	}
	return show.Middle(s, n)
}

// escaped reports whether s can be shown as it is: its backslashes are all inside of
// quoted text, which they cannot end early, and all else shows itself honestly.
func escaped(s string) bool {
	var bare strings.Builder
	for rest := s; rest != ""; {
		if quoted, err := strconv.QuotedPrefix(rest); err == nil && rest[0] == '"' {
			bare.WriteString(strings.ReplaceAll(quoted, `\`, "/"))
			rest = rest[len(quoted):]
			continue
		}
		bare.WriteByte(rest[0])
		rest = rest[1:]
	}
	return !strings.Contains(bare.String(), `\`) && show.Line(bare.String()) == bare.String()
}

// fit shortens prose to n columns: after its last whole sentence or, when none
// fits, after a word with a mark.
func fit(s string, n int) string {
	line, _, _ := strings.Cut(s, "\n")
	safe := show.Line(line)
	if utf8.RuneCountInString(safe) <= n {
		return safe
	}
	head := string([]rune(safe)[:max(n-3, 1)])
	if i := strings.LastIndex(head, ". "); i > 0 {
		return head[:i+1]
	}
	if i := strings.LastIndex(head, " "); i > 0 {
		head = head[:i]
	}
	return strings.TrimRight(head, " ,;:") + "..." // a mark of the frame would be escaped in a table
}

// pair is one line of a description.
type pair struct{ name, value string }

// fields prints a description; lines without a value are left out.
func fields(w io.Writer, pairs ...pair) {
	wide := 0
	for _, p := range pairs {
		if p.value != "" {
			wide = max(wide, len(p.name))
		}
	}
	for _, p := range pairs {
		if p.value != "" {
			text := show.Line(p.value)
			if p.name == summaryField {
				text = safeLine(p.value)
			}
			fmt.Fprintf(w, "%-*s  %s\n", wide, p.name, text)
		}
	}
}

// stamp is a moment as people read it here: to the second, UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// second is a moment in a document, to the second; what is none stays as it is.
func second(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return show.Line(text)
	}
	return stamp(t)
}

// left says how long it is until t.
func left(t, now time.Time) string {
	d := t.Sub(now)
	if d <= 0 {
		return "now"
	}
	return span(d)
}

// span is a duration in the two units that matter.
func span(d time.Duration) string {
	switch {
	case d >= 24*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d/time.Millisecond)
}

// size is a number of bytes.
func size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return count(n, "byte")
}

// count is a number of things, which have a plain plural.
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// yes is a flag in a table.
func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// some makes a nil list an empty one: JSON has no null lists.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// indented is a JSON document for people.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// encodePlain is JSON with HTML characters as they are, without a newline.
func encodePlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
