package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/cli/processargs"
	"palyra/internal/show"
)

// CellWidth is the width above which a table's cell loses its middle; `show` and --json have it whole.
const CellWidth = 120

// SummaryColumn and summaryField hold a call's summary, which is the daemon's own text.
const (
	SummaryColumn = "SUMMARY"
	SummaryField  = "Summary"
)

// Table prints rows under a header. Every cell is escaped. On a terminal it fits the width: the least needed
// columns are left out, which a line below says, and the longest cells lose their middle.
func Table(w io.Writer, header []string, rows [][]string) { tableWithin(w, header, rows, Width(w)) }

func tableWithin(w io.Writer, header []string, rows [][]string, columns int) {
	whole := header
	header, rows, widths := fitted(header, rows, columns)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = show.Middle(c, CellWidth)
			if i < len(header) && header[i] == SummaryColumn {
				cells[i] = SafeMiddle(c, CellWidth)
			}
			if i < len(widths) {
				cells[i] = narrow(cells[i], widths[i])
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush()
	if gone := slices.DeleteFunc(slices.Clone(whole), func(name string) bool { return slices.Contains(header, name) }); len(gone) > 0 {
		fmt.Fprintf(w, "(not wide enough for %s: %s; --json has all)\n", Count(int64(len(gone)), "column"), strings.Join(gone, ", "))
	}
}

// SafeLine is text of the daemon's own on one line. The daemon has escaped outside text in it
// already, so that its backslashes are escapes: escaping them again would change the meaning. If
// anything in it is unsafe, all of it is shown as outside text.
func SafeLine(s string) string {
	if Escaped(s) {
		return s
	}
	return show.Line(s)
}

// SafeMiddle is SafeLine of about n characters, without its middle.
func SafeMiddle(s string, n int) string {
	if Escaped(s) {
		return show.MiddleOf(s, n)
	}
	return show.Middle(s, n)
}

// Escaped reports whether s can be shown unchanged: its backslashes are all inside of quoted text,
// which they cannot end early, and it has no misleading characters.
func Escaped(s string) bool {
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

// Fit shortens prose to n columns: after its last whole sentence or, when none fits, after a word with a mark.
func Fit(s string, n int) string {
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
	return strings.TrimRight(head, " ,;:") + "..." // the frame's own mark would be escaped in a table
}

// Pair is one line of a description.
type Pair [2]string

// Fields prints a description, without lines that have no value.
func Fields(w io.Writer, pairs ...Pair) {
	wide := 0
	for _, p := range pairs {
		if p[1] != "" {
			wide = max(wide, len(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] != "" {
			text := show.Line(p[1])
			if p[0] == SummaryField {
				text = SafeLine(p[1])
			}
			fmt.Fprintf(w, "%-*s  %s\n", wide, p[0], text)
		}
	}
}

// Stamp is a time for people: to the second, UTC.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Second is a time in a document, to the second; another value stays unchanged.
func Second(text string) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return show.Line(text)
	}
	return Stamp(t)
}

// Left is the time until t.
func Left(t, now time.Time) string {
	d := t.Sub(now)
	if d <= 0 {
		return "now"
	}
	return Span(d)
}

// Span is a duration in its two largest units.
func Span(d time.Duration) string {
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

// Size is a number of bytes.
func Size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return Count(n, "byte")
}

// Count is a number of things with a regular plural.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// Yes is a flag in a table.
func Yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Some makes a nil list an empty one: our JSON has no null lists.
func Some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Indented is a JSON document for people.
func Indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return string(PlainJSON(b.Bytes()))
}

// EncodePlain is JSON with HTML characters unescaped, without a newline.
func EncodePlain(v any) ([]byte, error) { return processargs.Encode(v) }

// Path is the name of a file in a list, cut to the width of a line, or the number of further ones.
func Path(t palyra.PathText) string {
	const most = 200
	if more := t.More(); more != "" {
		return show.Line(more)
	}
	name := t.Raw()
	if len(name) > most {
		name = palyra.Clip(name, most)
	}
	return show.Arg(name)
}
