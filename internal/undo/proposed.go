package undo

import (
	"fmt"
	"strings"

	"palyra"
)

// ran reports whether a call was started, whatever came of it.
func ran(c *palyra.Call) bool {
	switch c.State {
	case palyra.Running, palyra.Settling, palyra.Finished, palyra.Unknown:
		return true
	case palyra.Cancelled:
		return c.Grant != ""
	}
	return false
}

// sections splits a unified diff by file. Lines of a file's content are counted: whatever they say, they begin no file.
func sections(diff string, each func(path, text string)) {
	var from, to string
	var text strings.Builder
	was, is := 0, 0 // lines of the hunk that are to come
	flush := func() {
		if from != "" {
			each(fileOf(from, to), text.String())
		}
		from, to = "", ""
		text.Reset()
	}
	for line := range strings.Lines(diff) {
		switch {
		case was > 0 || is > 0:
			switch line[0] {
			case ' ':
				was, is = was-1, is-1
			case '-':
				was--
			case '+':
				is--
			}
		case strings.HasPrefix(line, "--- "):
			flush()
			from = strings.TrimSpace(line[4:])
		case strings.HasPrefix(line, "+++ "):
			to = strings.TrimSpace(line[4:])
		case strings.HasPrefix(line, "@@ "):
			was, is = hunk(line)
		}
		text.WriteString(line)
	}
	flush()
}

// hunk reads how many lines of a file a hunk has before and after.
func hunk(line string) (was, is int) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return 0, 0
	}
	return count(f[1]), count(f[2])
}

func count(span string) int {
	_, n, given := strings.Cut(span, ",")
	if !given {
		return 1
	}
	lines := 0
	_, _ = fmt.Sscanf(n, "%d", &lines) // a diff of ours; anything else counts as none
	return lines
}

// fileOf is the path that the two headers of a file name.
func fileOf(from, to string) string {
	name, side := to, "b/"
	if to == "/dev/null" {
		name, side = from, "a/"
	}
	path, err := palyra.PathText(name).Name()
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(path, side)
}
