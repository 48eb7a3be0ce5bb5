package upstream

import (
	"bytes"

	"palyra/internal/show"
)

// wordsBytes is the most that is quoted of one line.
const wordsBytes = 300

// lastWords is a server's message about its end, as one safe line: the last line of its stderr, and before it
// the last one that names an error. Many runtimes write a trace or their version after that, which says
// nothing by itself.
func lastWords(stderr []byte) string {
	var last, fault []byte
	for line := range bytes.Lines(stderr) {
		line = bytes.TrimRight(line, "\r\n \t")
		if len(line) == 0 {
			continue
		}
		last = line
		if namesFault(line) {
			fault = line
		}
	}
	if fault == nil || bytes.Equal(fault, last) {
		return quote(last)
	}
	return quote(fault) + " ... " + quote(last)
}

// namesFault tells lines that say what went wrong from the traces around them, which are set in.
func namesFault(line []byte) bool {
	if line[0] == ' ' || line[0] == '\t' {
		return false
	}
	low := bytes.ToLower(line)
	for _, word := range []string{"error", "panic", "fatal", "exception"} {
		if bytes.Contains(low, []byte(word)) {
			return true
		}
	}
	return false
}

func quote(line []byte) string { return show.Line(string(line[:min(len(line), wordsBytes)])) }
