package show

import (
	"strings"
)

// Frame sets outside text apart from Palyra's own: every line of it starts with Prefix and a gutter. With a Width,
// lines are broken here rather than by the terminal, so that the part after a break has its gutter too.
type Frame struct {
	Prefix string
	Width  int // columns of the terminal; 0: lines are not broken
}

const (
	gutter   = "│ "
	gutterOn = "┆ " // the line goes on from the one above
)

// Block renders s as Block does, in the frame. It ends with a newline.
func (f Frame) Block(s string) string {
	var out strings.Builder
	for line := range strings.SplitSeq(Block(s), "\n") {
		mark := gutter
		for _, part := range wrap(line, f.room()) {
			out.WriteString(f.Prefix + mark + part + "\n")
			mark = gutterOn
		}
	}
	return out.String()
}

// Text sets text that is already safe (see Line) after a label, which takes the place of prefix and
// gutter and must not be wider. Lines that follow have the gutter. It ends with a newline.
func (f Frame) Text(label, safe string) string {
	var out strings.Builder
	for i, part := range wrap(safe, f.room()) {
		if i == 0 {
			out.WriteString(label)
		} else {
			out.WriteString(f.Prefix + gutterOn)
		}
		out.WriteString(part + "\n")
	}
	return out.String()
}

// room is how many columns a line has for text; 0 is no limit. A terminal too
// narrow for any text still gets a little, and breaks it itself.
func (f Frame) room() int {
	if f.Width <= 0 {
		return 0
	}
	return max(f.Width-columns(f.Prefix)-2, 8)
}

// wrap cuts a line into parts of at most room columns: behind a space where the second half of the part has one,
// else wherever the room ends. The space stays, so that the parts put together are the line.
func wrap(line string, room int) []string {
	if room == 0 || len(line) <= room {
		return []string{line}
	}
	var parts []string
	start, used, space, after := 0, 0, 0, 0 // space: where the last word starts; after: columns since
	for i, r := range line {
		w := width(r)
		if used+w > room {
			if after < used-room/2 && space > start {
				parts, start, used = append(parts, line[start:space]), space, after
			} else {
				parts, start, used, after = append(parts, line[start:i]), i, 0, 0
			}
		}
		used += w
		after += w
		if r == ' ' {
			space, after = i+1, 0
		}
	}
	return append(parts, line[start:])
}

// width is how many columns r takes at most. Terminals differ for characters beyond ASCII; two is never too little.
func width(r rune) int {
	if r < 0x7f {
		return 1
	}
	return 2
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n += width(r)
	}
	return n
}
