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
	texts []string // already escaped; several where lists were folded into one line, the gravest first
	block string   // outside text; "": none
	tail  string   // what stands after the last text, and stays when others go
	raw   string   // the line as it is, after the label
	inset bool     // the block stands where the label does
	tone  tone

	briefs    []string // what stands for each text where there is no room; "" or none: the text itself
	briefTail string   // the same for the tail
}

// brief is what stands for one of the texts where there is no room.
func (p part) brief(i int) string {
	if i < len(p.briefs) && p.briefs[i] != "" {
		return p.briefs[i]
	}
	return p.texts[i]
}

// add appends a text and what stands for it.
func (p *part) add(text, brief string) {
	for i := len(p.briefs); i < len(p.texts); i++ {
		p.briefs = append(p.briefs, "")
	}
	p.texts, p.briefs = append(slices.Clip(p.texts), text), append(slices.Clip(p.briefs), brief)
}

// abridged has the first entries of a list whole, the others brief, and only so many of them.
func (p part) abridged(whole, shown int) part {
	less := p
	less.texts, less.briefs = slices.Clone(p.texts[:shown]), nil
	for i := whole; i < shown; i++ {
		less.texts[i] = p.brief(i)
	}
	if n := len(p.texts) - shown; n > 0 {
		less.texts = append(less.texts, fmt.Sprintf("%d more", n))
	}
	return less
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
// left out is named, and --full shows it. What runs, its own variables, what it writes and reaches, the risk and the
// warnings are not among them: those only get shorter.
var dispensable = []string{
	"Waiting", "Subject", "Terminal", "Plan digest", "Digest", "Input files", "Remedy", "Mounts", "Runs in", "Network", "Your key",
	"Reads", "Stdin", "Workspace", "Tool", "Notes", "Sealed", "Asked by", "Needs", "Answers", "Directory", "Why asked",
	"Diff", seeIt, "Summary",
}

// mostRows is how many lines of a question one part may have while others are left out for it; otherRows is it for any other part.
var mostRows = map[string]int{"Command": 2, "Arguments": 3, "Argument": 3, "Diff": 7, warning: 3, answerWith: 1, notShown: 1}

const (
	otherRows  = 2
	scriptRows = 4 // of a command that is a script
)

// Labels that the layout knows.
const (
	notShown   = "Not shown"
	warning    = "WARNING"
	riskLabel  = "Risk"
	answerWith = "Answer with"
	seeIt      = "See it"
	keepLabel  = "Keep?"
)

// together are parts that become one where nothing else is left to leave out, under the label of the first; inOneLine are those
// that do so only where not every part has a line.
var (
	together  = [][]string{{"Hosts", "Secrets", "Writes"}, {warning, "NOT SHOWN"}, {"Command", "Arguments"}, {"Arguments", "Argument"}}
	inOneLine = [][]string{{"Program", "Environment"}, {keepLabel}}
)

// fitted is the question in at most so many lines: as it is where it fits, else lists are folded into lines, warnings into one
// paragraph, parts that matter less are named instead of shown, and what is still too long gets shorter.
func (v *View) fitted(parts []part, most int) (out []part, whole bool) {
	if v.total(parts) <= most {
		return parts, true
	}
	parts = folded(parts)
	notes := slices.Index(dispensable, "Notes")
	for i, label := range dispensable {
		hint := 0 // a second line of what is not shown has the whole command that shows it: only what tells little goes for it
		if i < notes {
			hint = min(v.rows(v.leftPart()), 2) - 1
		}
		if v.least(parts)+hint <= most {
			break
		}
		if label == "Tool" && !has(parts, "Command") {
			continue
		}
		n := len(parts)
		if parts = slices.DeleteFunc(parts, func(p part) bool { return p.label == label && p.tone != alarm }); len(parts) < n {
			v.left = append([]string{strings.ToLower(label)}, v.left...) // what was hardest to part with is named first
		}
	}
	parts = v.withNotShown(parts)
	join := func(labels ...string) {
		label := labels[0]
		if i := slices.IndexFunc(parts, func(p part) bool { return slices.Contains(labels, p.label) && p.tone != alarm }); i >= 0 {
			label = parts[i].label
		}
		parts = merged(parts, label, func(p part) bool {
			return slices.Contains(labels, p.label) && (p.block == "" || p.label == "Argument")
		})
	}
	needed, blocks := 0, 0
	for _, p := range parts {
		if needed += v.needed(p); p.block != "" {
			blocks += min(v.rows(p), scriptRows) - 1
		}
	}
	if needed+blocks > most {
		join(answerWith)
	}
	for _, labels := range together {
		needed = 0
		for _, p := range parts {
			needed += v.needed(p)
		}
		if needed > most {
			join(labels...)
		}
	}
	for _, labels := range inOneLine {
		if len(parts) > most {
			join(labels...)
		}
	}
	return v.squeezed(parts, most), false
}

// needed is how many lines a part must have: those of the short words of all warnings, and of the gravest risks.
func (v *View) needed(p part) int {
	switch p.label {
	case warning:
		return min(v.rows(p.abridged(0, len(p.texts))), 3)
	case riskLabel:
		return min(v.rows(p.abridged(0, len(p.texts))), 2)
	}
	return 1
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
		switch {
		case !set:
			most = otherRows
		case p.label == "Command" && p.block != "":
			most = scriptRows
		}
		if slices.Contains(effectLabels, p.label) {
			most = max(most, v.Pane/2)
		}
		n += max(min(v.rows(p), most), v.needed(p))
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
				p.add(show.Line(line), "")
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
			if goesOn && label != riskLabel {
				p.label = label
			}
			out = append(out, p)
		case goesOn && known && label != answerWith && label != keepLabel && out[i].block == "":
			for j, text := range p.texts {
				out[i].add(text, p.brief(j))
			}
		default:
			p.label, at[label] = label, len(out)
			out = append(out, p)
		}
	}
	return warned(out)
}

// merged makes one part of several, where the last of them stood: the first entry of each, then the second of each, and so on.
func merged(parts []part, label string, which func(part) bool) []part {
	one, longest, last := part{label: label}, 0, -1
	for i, p := range parts {
		if which(p) {
			longest, last, one.tone = max(longest, len(p.texts)), i, p.tone
		}
	}
	for n := range longest {
		for _, p := range parts {
			if which(p) && n < len(p.texts) {
				before := ""
				if p.label != "" && p.label != label && p.tone != alarm {
					before = p.label + ": "
				}
				one.add(before+p.texts[n], before+p.brief(n))
			}
		}
	}
	var out []part
	for i, p := range parts {
		switch {
		case i == last:
			out = append(out, one)
		case !which(p):
			out = append(out, p)
		}
	}
	return out
}

// withNotShown puts the line in that names what was left out, or has it name all of it.
func (v *View) withNotShown(parts []part) []part {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.label == notShown })
	if len(v.left) == 0 {
		return parts
	}
	at := slices.IndexFunc(parts, func(p part) bool { return p.label == riskLabel || p.label == answerWith })
	if at < 0 {
		at = len(parts)
	}
	return slices.Insert(parts, at, v.leftPart())
}

// squeezed gives every part the lines that it must have and shares out the others, to what runs first.
func (v *View) squeezed(parts []part, most int) []part {
	given, last := make([]int, len(parts)), ""
	spare := most - len(parts)
	for i := range parts {
		given[i] = 1
	}
	give := func(limit func(p part) int) {
		for i, p := range parts {
			more := max(min(v.rows(p), limit(p))-given[i], 0)
			given[i] += min(more, max(spare, 0))
			spare -= min(more, max(spare, 0))
		}
	}
	give(func(p part) int {
		if p.label == warning {
			return v.needed(p)
		}
		return 1
	})
	give(v.needed)
	for _, limits := range []map[string]int{
		{"Command": 2, "Arguments": 2, "Argument": 3, "Diff": 7},
		{warning: 3},
		{notShown: 2},
		{riskLabel: 2, "Hosts": 2, "Writes": 2, "Environment": 2, "Program": 2},
		{"Command": 4, "Arguments": 3},
	} {
		give(func(p part) int {
			if p.label == "Command" && p.block != "" {
				return scriptRows
			}
			return limits[p.label]
		})
	}
	give(v.rows)
	out := parts[:0]
	for i := range parts {
		if parts[i].label == seeIt && v.rows(parts[i]) > given[i] {
			continue // a command that is cut cannot be typed
		}
		parts[i] = v.within(parts[i], given[i])
		if parts[i].label == last {
			parts[i].label = ""
		} else {
			last = parts[i].label
		}
		out = append(out, parts[i])
	}
	return out
}

// within is a part in at most so many lines: a list gets briefer from its end and then loses its last entries, a text loses its
// middle, a block its end.
func (v *View) within(p part, most int) part {
	if v.rows(p) <= most {
		return p
	}
	if p.block != "" {
		return v.blockWithin(p, most)
	}
	n := len(p.texts)
	fits := func(less part) bool { return v.rows(less) <= most }
	for {
		if fits(p.abridged(0, n)) {
			return p.abridged(max(sort.Search(n, func(k int) bool { return !fits(p.abridged(k+1, n)) }), 0), n)
		}
		if shown := sort.Search(n, func(k int) bool { return !fits(p.abridged(0, k)) }) - 1; shown > 0 {
			return p.abridged(0, shown)
		}
		if p.briefTail == "" {
			break
		}
		p.tail, p.briefTail = p.briefTail, ""
	}
	text, more := p.abridged(0, n).text(), ""
	if n > 1 && p.tail == "" && (v.Width == 0 || v.Width >= labelWidth+leastRow) {
		text, more = p.brief(0), fmt.Sprintf(", %d more", n-1)
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
		less.tail = " (" + screen.Count(int64(len(lines)-n), "line") + " of it NOT SHOWN here" + v.more(p.label) + ")"
		return less
	}
	if n := sort.Search(len(lines), func(n int) bool { return v.rows(some(n)) > most }) - 1; n >= 0 {
		return some(n)
	}
	less := some(0)
	return v.within(less, most)
}
