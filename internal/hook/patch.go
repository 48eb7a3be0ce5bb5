package hook

import "strings"

// maxPatched is the largest file of which a patch is shown as the whole it makes.
const maxPatched = 2 << 20

const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	updateFile = "*** Update File: "
)

// Patched reads a patch as Codex writes it, and returns the one file that it changes and what that has then. It is
// not ok where a patch does more than that, or where what it stands on is not in the file exactly once: Codex may
// yet take it, and finds the place in its own way. read returns a text file as it is.
func Patched(patch string, read func(path string) (string, bool)) (path, content string, ok bool) {
	lines := strings.Split(strings.TrimRight(patch, "\n"), "\n")
	if len(patch) > maxPatched || len(lines) < 4 || lines[0] != beginPatch || lines[len(lines)-1] != endPatch {
		return "", "", false
	}
	head, body := lines[1], lines[2:len(lines)-1]
	if path, ok = strings.CutPrefix(head, addFile); ok {
		content, ok = added(body)
		return path, content, ok
	}
	if path, ok = strings.CutPrefix(head, updateFile); !ok {
		return "", "", false
	}
	if content, ok = read(path); !ok {
		return "", "", false
	}
	for _, h := range hunks(body) {
		if content, ok = h.apply(content); !ok {
			return "", "", false
		}
	}
	return path, content, len(content) <= maxPatched
}

// added is the text of a file that is made.
func added(body []string) (string, bool) {
	var b strings.Builder
	for _, line := range body {
		text, ok := strings.CutPrefix(line, "+")
		if !ok {
			return "", false
		}
		b.WriteString(text + "\n")
	}
	return b.String(), true
}

// hunk is a run of lines that become others.
type hunk struct {
	old, new strings.Builder
	bad      bool
}

// hunks cuts the body of an update. A line that is none of a hunk makes it bad: the
// patch changes more than one file, or moves it.
func hunks(body []string) (all []*hunk) {
	for _, line := range body {
		if strings.HasPrefix(line, "@@") {
			all = append(all, &hunk{bad: line != "@@"}) // what follows says where: that is Codex's to find
			continue
		}
		if len(all) == 0 {
			all = append(all, &hunk{})
		}
		h := all[len(all)-1]
		switch {
		case line == "":
			h.old.WriteString("\n")
			h.new.WriteString("\n")
		case line[0] == ' ':
			h.old.WriteString(line[1:] + "\n")
			h.new.WriteString(line[1:] + "\n")
		case line[0] == '-':
			h.old.WriteString(line[1:] + "\n")
		case line[0] == '+':
			h.new.WriteString(line[1:] + "\n")
		default:
			h.bad = true
		}
	}
	return all
}

func (h *hunk) apply(content string) (string, bool) {
	old := h.old.String()
	at := strings.Index("\n"+content, "\n"+old)
	if h.bad || old == "" || at < 0 || strings.Count("\n"+content, "\n"+old) != 1 {
		return "", false
	}
	return content[:at] + h.new.String() + content[at+len(old):], true
}
