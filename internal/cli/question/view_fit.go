package question

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// tone is how a line is meant: plainly, as a warning, or as an aside.
type tone int

const (
	plain tone = iota
	alarm
	calm
)

// part is a labelled piece of a view: safe texts that stand on one line, and outside text behind the gutter below them.
type part struct {
	label string
	texts []string // already escaped; several where lists were folded into one line
	block string   // outside text; "": none
	tail  string   // what stands after the last text, and stays when others go
	raw   string   // the line as it is, after the label
	inset bool     // the block stands where the label does
	tone  tone
}

// text is the text of a part.
func (p part) text() string { return strings.Join(p.texts, ", ") + p.tail }

// emit prints a part, or keeps it until all of them are laid out.
func (v *View) emit(p part) {
	if v.laid {
		v.parts = append(v.parts, p)
		return
	}
	io.WriteString(v.W, v.shown(p))
}

// shown is a part as it is printed. It wraps before it colours, so that no colour is cut in half.
func (v *View) shown(p part) string {
	if p.raw != "" {
		return v.Style.Strong(p.label) + p.raw + "\n"
	}
	var out strings.Builder
	label := p.label
	if len(label) >= labelWidth {
		out.WriteString(v.Style.Strong(label) + "\n")
		label = ""
	}
	margin := strings.Repeat(" ", labelWidth)
	frame := show.Frame{Prefix: margin[2:], Width: v.Width}
	if p.text() != "" || len(p.texts) > 0 {
		lines := strings.TrimSuffix(frame.Text(margin, p.text()), "\n")
		first, rest, broken := strings.Cut(strings.TrimPrefix(lines, margin), "\n")
		out.WriteString(v.Style.Strong(label) + margin[len(label):] + v.colour(p.tone, first) + "\n")
		if broken {
			out.WriteString(v.colour(p.tone, rest) + "\n")
		}
	} else if label != "" {
		out.WriteString(v.Style.Strong(label) + "\n")
	}
	if p.block != "" {
		if p.inset {
			frame.Prefix = "  "
		}
		out.WriteString(frame.Block(p.block))
	}
	return out.String()
}

func (v *View) colour(t tone, s string) string {
	switch t {
	case alarm:
		return v.Style.Alarm(s)
	case calm:
		return v.Style.Calm(s)
	}
	return s
}

// rows is how many lines a part has.
func (v *View) rows(p part) int { return strings.Count(v.shown(p), "\n") }

// dispensable are the labels that a question can do without, those first that tell least of what an answer does. What is
// left out is named, and --full shows it. A warning is never left out, nor what runs, what it writes and what it reaches.
var dispensable = []string{
	"Waiting", "Subject", "Terminal", "Plan digest", "Digest", "Input files", "Remedy", "Mounts", "Runs in", "Network", "Your key",
	"Reads", "Stdin", "Workspace", "Tool", "Notes", "Sealed", "Asked by", "Diff", "Needs", "Summary", "Answers", "Directory",
	"Why asked", "Environment", "Program",
}

// mostRows is how many lines of a question one part may have while others are left out for it; otherRows is it for any other part.
var mostRows = map[string]int{"Command": 4, "Arguments": 3, "Argument": 3, "Diff": 7, warning: 3, answerWith: 1, notShown: 1}

const otherRows = 2

// Labels that the layout knows.
const (
	notShown   = "Not shown"
	warning    = "WARNING"
	answerWith = "Answer with"
	keepLabel  = "Keep?"
)

// together are parts that become one line where nothing else is left to leave out, under the first of their labels.
var together = [][]string{{keepLabel}, {"Arguments", "Argument"}, {"Hosts", "Secrets", "Writes"}, {answerWith}, {warning, "NOT SHOWN"}}

// fitted is the question in at most so many lines: as it is where it fits, else lists are folded into lines, warnings into one
// paragraph, parts that matter less are named instead of shown, and what is still too long loses its middle.
func (v *View) fitted(parts []part, most int) (out []part, whole bool) {
	if v.total(parts) <= most {
		return parts, true
	}
	parts = folded(parts)
	for _, label := range dispensable {
		if v.least(parts) <= most {
			break
		}
		if label == "Tool" && !has(parts, "Command") {
			continue
		}
		n := len(parts)
		if parts = slices.DeleteFunc(parts, func(p part) bool { return p.label == label && p.tone != alarm }); len(parts) < n {
			v.left = append(v.left, strings.ToLower(label))
		}
	}
	parts = v.withNotShown(parts)
	for _, labels := range together {
		if len(parts) > most {
			parts = merged(parts, labels[0], func(p part) bool { return slices.Contains(labels, p.label) })
		}
	}
	return v.squeezed(parts, most), false
}

func has(parts []part, label string) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.label == label })
}

// total is how many lines parts have.
func (v *View) total(parts []part) (n int) {
	for _, p := range parts {
		n += v.rows(p)
	}
	return n
}

// least is how many lines parts have when none has more than it may, and a line names what is left out.
func (v *View) least(parts []part) int {
	n := 0
	for _, p := range parts {
		most, set := mostRows[p.label]
		if !set {
			most = otherRows
		}
		n += min(v.rows(p), most)
	}
	if !has(parts, notShown) {
		n++
	}
	return n
}

// folded puts the entries of a list on one line and the warnings into one paragraph. Answers and changes stay one on a line.
func folded(parts []part) []part {
	var out []part
	at, label := map[string]int{}, ""
	for _, p := range parts {
		goesOn := p.label == "" && label != ""
		if goesOn && p.block != "" { // the rest of a text
			for line := range strings.SplitSeq(p.block, "\n") {
				p.texts = append(p.texts, show.Line(line))
			}
			p.block = ""
		}
		if !goesOn {
			label = p.label
		}
		i, known := at[label]
		switch {
		case p.tone == calm:
		case p.tone == alarm:
			if goesOn && label != "Risk" {
				p.label = label
			}
			out = append(out, p)
		case goesOn && known && label != answerWith && label != keepLabel && out[i].block == "":
			out[i].texts = slices.Concat(out[i].texts, p.texts)
		default:
			p.label, at[label] = label, len(out)
			out = append(out, p)
		}
	}
	return merged(out, warning, func(p part) bool { return p.tone == alarm && p.label != "Risk" && p.label != "NOT SHOWN" })
}

// merged makes one part of several, where the last of them stood.
func merged(parts []part, label string, which func(part) bool) []part {
	one, at := part{label: label}, -1
	for _, p := range parts {
		if !which(p) {
			continue
		}
		text := strings.TrimPrefix(p.text(), warning+": ")
		if p.label != "" && p.label != label {
			text = p.label + ": " + text
		}
		one.texts, one.tone = append(one.texts, text), p.tone
		at++
	}
	if at < 0 {
		return parts
	}
	var out []part
	for _, p := range parts {
		if !which(p) {
			out = append(out, p)
			continue
		}
		if at == 0 {
			out = append(out, one)
		}
		at--
	}
	return out
}

// withNotShown puts the line in that names what was left out, or has it name all of it.
func (v *View) withNotShown(parts []part) []part {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.label == notShown })
	if len(v.left) == 0 {
		return parts
	}
	at := slices.IndexFunc(parts, func(p part) bool { return p.label == "Risk" || p.label == answerWith })
	if at < 0 {
		at = len(parts)
	}
	return slices.Insert(parts, at, v.leftPart())
}

// squeezed gives every part one line and shares out the others, to what runs first.
func (v *View) squeezed(parts []part, most int) []part {
	given, last := make([]int, len(parts)), ""
	spare := most - len(parts)
	for i := range parts {
		given[i] = 1
	}
	for _, limits := range []map[string]int{{"Command": 4, "Arguments": 3, "Argument": 3, "Diff": 7}, {warning: 3}, {notShown: 2}, nil} {
		for i, p := range parts {
			more := min(v.rows(p)-given[i], spare)
			if limits != nil {
				more = min(more, limits[p.label]-given[i])
			}
			given[i] += max(more, 0)
			spare -= max(more, 0)
		}
	}
	for i := range parts {
		parts[i] = v.within(parts[i], given[i])
		if parts[i].label == last {
			parts[i].label = ""
		} else {
			last = parts[i].label
		}
	}
	return parts
}

// within is a part in at most so many lines: a list loses its last entries, a text its middle, a block its end.
func (v *View) within(p part, most int) part {
	if v.rows(p) <= most {
		return p
	}
	if p.block != "" {
		return v.blockWithin(p, most)
	}
	some := func(n int) part {
		less := p
		less.texts = append(slices.Clone(p.texts[:n]), fmt.Sprintf("%d more", len(p.texts)-n))
		if n == 0 {
			less.texts, less.tail = nil, strings.TrimPrefix(p.tail, "; ")
		}
		return less
	}
	if n := sort.Search(len(p.texts), func(n int) bool { return v.rows(some(n)) > most }) - 1; n > 0 || n == 0 && p.tail != "" {
		return some(n)
	}
	text, more := p.text(), ""
	if n := len(p.texts) - 1; n > 0 && p.tail == "" && (v.Width == 0 || v.Width >= labelWidth+leastRow) {
		text, more = p.texts[0], fmt.Sprintf(", %d more", n)
	}
	for n := most * max(v.Width-labelWidth, leastRow); ; n-- {
		less := p
		less.texts, less.tail = []string{shortened(text, n)}, more
		if n <= 1 || v.rows(less) <= most {
			return less
		}
	}
}

// leastMiddle is the length below which a text rather loses its end.
const leastMiddle = 24

// shortened is a safe text of about n characters: without its middle or, where the words for that would take most of it, its end.
func shortened(safe string, n int) string {
	if n >= leastMiddle {
		return show.MiddleOf(safe, n)
	}
	if runes := []rune(safe); len(runes) > n {
		return string(runes[:max(n-1, 0)]) + "⋯"
	}
	return safe
}

// blockWithin is a part whose block ends where its lines do, and says how much is missing.
func (v *View) blockWithin(p part, most int) part {
	lines := strings.Split(p.block, "\n")
	some := func(n int) part {
		less := p
		less.block = strings.Join(lines[:n], "\n")
		less.tail = " (" + screen.Count(int64(len(lines)-n), "line") + " of it NOT SHOWN here)"
		return less
	}
	if n := sort.Search(len(lines), func(n int) bool { return v.rows(some(n)) > most }) - 1; n >= 0 {
		return some(n)
	}
	less := some(0)
	return v.within(less, most)
}
