package unified

import (
	"path"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"palyra"
)

const (
	MaxPatchFiles = 200
	devNull       = "/dev/null"
)

// File is the part of a patch about one file.
type File struct {
	Old, New string // paths; empty for a file that is made or deleted
	Action   string // modify, create, delete, rename, copy
	Exec     *bool  // the execute permission, when the patch sets it
	Hunks    []*gitdiff.TextFragment
}

func Mismatch(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonPatchMismatch, "the patch cannot be applied: "+format, args...).
		WithRemedy("read the files again and write a unified diff against what they contain now")
}

// Parse reads a unified diff strictly. It cuts the text into one section per file first: the library takes lines
// between files for commentary, and so would silently drop lines after a hunk whose line counts are too small.
func Parse(text string) ([]File, error) {
	sections, err := cutPatch(text)
	if err != nil {
		return nil, err
	}
	if len(sections) == 0 {
		return nil, Mismatch("it names no file")
	}
	if len(sections) > MaxPatchFiles {
		return nil, Mismatch("it changes %d files; at most %d are accepted", len(sections), MaxPatchFiles)
	}
	diffs := make([]File, 0, len(sections))
	for _, s := range sections {
		d, err := s.parse()
		if err != nil {
			return nil, err
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// section is the part of a patch about one file.
type section struct {
	text     strings.Builder
	line     int  // its first line, from 1
	git      bool // begins with a "diff --git" line, and so has prefixes on every name
	names    bool // its "---" line was seen
	hunks    int
	old, new string // names of a section without a "diff --git" line
}

// cutter goes through the lines of a patch.
type cutter struct {
	lines    []string
	at       int
	sections []*section
}

func cutPatch(text string) ([]*section, error) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n" // a missing line end is a slip, not "no newline at end of file"
	}
	c := &cutter{lines: strings.SplitAfter(text, "\n")}
	c.lines = c.lines[:len(c.lines)-1]
	for c.at < len(c.lines) {
		if done, err := c.step(); done || err != nil {
			return c.sections, err
		}
	}
	return c.sections, nil
}

func (c *cutter) line(ahead int) string {
	if c.at+ahead < len(c.lines) {
		return c.lines[c.at+ahead]
	}
	return ""
}

func (c *cutter) last() *section {
	if len(c.sections) == 0 {
		return nil
	}
	return c.sections[len(c.sections)-1]
}

// begin opens a section.
func (c *cutter) begin(git bool) *section {
	s := &section{line: c.at + 1, git: git}
	c.sections = append(c.sections, s)
	return s
}

// take adds n lines to the section.
func (c *cutter) take(s *section, n int) {
	for range n {
		s.text.WriteString(c.lines[c.at])
		c.at++
	}
}

// step takes the next thing in the patch: a header, a hunk, or a line between.
func (c *cutter) step() (done bool, err error) {
	line, s := c.line(0), c.last()
	switch {
	case strings.HasPrefix(line, "diff --git "):
		c.take(c.begin(true), 1)
	case strings.HasPrefix(line, "--- ") && strings.HasPrefix(c.line(1), "+++ "):
		if s == nil || !s.git || s.names {
			s = c.begin(false)
			s.old, s.new = headerName(line[4:]), headerName(c.line(1)[4:])
		}
		s.names = true
		c.take(s, 2)
	case strings.HasPrefix(line, "@@ "):
		return false, c.hunk(s)
	case line == "-- \n" && s != nil: // the signature of a mailed patch
		return true, nil
	case s == nil || strings.TrimSpace(line) == "":
		c.at++
	case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
		return false, Mismatch("line %d changes a binary file", c.at+1).WithRemedy("write it with palyra.fs.write and content_b64")
	case s.git && s.hunks == 0:
		c.take(s, 1)
	case strings.HasPrefix(line, "Index: "), strings.HasPrefix(line, "====="), strings.HasPrefix(line, "diff "):
		c.at++ // text that other tools write between files
	default:
		return false, Mismatch("line %d does not belong to the hunk before it, whose header counts fewer lines", c.at+1)
	}
	return false, nil
}

// hunk takes a hunk: its header and the number of lines that the header counts.
func (c *cutter) hunk(s *section) error {
	if s == nil || !s.names {
		return Mismatch("line %d is a hunk without a file", c.at+1)
	}
	start := c.at + 1
	old, add, ok := hunkCounts(c.line(0))
	if !ok {
		return Mismatch("line %d is not a hunk header", start)
	}
	c.take(s, 1)
	for old > 0 || add > 0 {
		switch line := c.line(0); {
		case line == "":
			return Mismatch("the hunk at line %d counts more lines than follow", start)
		case line[0] == ' ' || line[0] == '\n':
			old, add = old-1, add-1
		case line[0] == '-':
			old--
		case line[0] == '+':
			add--
		case line[0] == '\\':
		default:
			return Mismatch("line %d is neither context, removed nor added; the hunk at line %d counts more lines than follow", c.at+1, start)
		}
		if old < 0 || add < 0 {
			return Mismatch("the hunk at line %d has other line counts than its header says", start)
		}
		c.take(s, 1)
	}
	if strings.HasPrefix(c.line(0), "\\") {
		c.take(s, 1)
	}
	s.hunks++
	return nil
}

// hunkCounts reads the two line counts of "@@ -a,b +c,d @@".
func hunkCounts(line string) (old, add int, ok bool) {
	f := strings.Fields(line)
	if len(f) < 4 || f[0] != "@@" || f[3] != "@@" || !strings.HasPrefix(f[1], "-") || !strings.HasPrefix(f[2], "+") {
		return 0, 0, false
	}
	count := func(s string) (int, bool) {
		_, n, both := strings.Cut(s[1:], ",")
		if !both {
			return 1, true
		}
		i, err := strconv.Atoi(n)
		return i, err == nil && i >= 0
	}
	old, okOld := count(f[1])
	add, okAdd := count(f[2])
	return old, add, okOld && okAdd
}

// headerName reads a name of a plain diff: up to a tab, or quoted.
func headerName(s string) string {
	s, _, _ = strings.Cut(strings.TrimSuffix(s, "\n"), "\t")
	if q, err := strconv.Unquote(s); err == nil && strings.HasPrefix(s, "\"") {
		return q
	}
	return strings.TrimRight(s, " \r")
}

// parse reads the section with the library and settles its names.
func (s *section) parse() (File, error) {
	files, _, err := gitdiff.Parse(strings.NewReader(s.text.String()))
	if err != nil || len(files) != 1 {
		return File{}, Mismatch("the part that starts at line %d is not a unified diff", s.line).WithCause(err)
	}
	f := files[0]
	if f.IsBinary || len(f.TextFragments) != s.hunks {
		return File{}, Mismatch("the part that starts at line %d is not a text diff", s.line)
	}
	d := File{Old: f.OldName, New: f.NewName, Action: "modify", Hunks: f.TextFragments}
	if !s.git {
		d.Old, d.New = s.plainNames()
	}
	switch {
	case f.IsNew:
		d.Action, d.Old = "create", ""
	case f.IsDelete:
		d.Action, d.New = "delete", ""
	case f.IsRename:
		d.Action = "rename"
	case f.IsCopy:
		d.Action = "copy"
	case d.Old != d.New:
		return File{}, Mismatch("the part that starts at line %d has two different names without saying rename", s.line)
	}
	return d, d.setMode(uint32(f.OldMode), uint32(f.NewMode), s.line)
}

// plainNames strips "a/" and "b/" when both sides have them.
func (s *section) plainNames() (before, after string) {
	a, okA := strings.CutPrefix(s.old, "a/")
	b, okB := strings.CutPrefix(s.new, "b/")
	if (okA || s.old == devNull) && (okB || s.new == devNull) {
		return a, b
	}
	return path.Clean(s.old), path.Clean(s.new)
}

// setMode takes the execute permission from the patch's modes. Links and submodules are not files.
func (d *File) setMode(old, now uint32, line int) error {
	const kind, file, exec = 0o170000, 0o100000, 0o100
	for _, m := range []uint32{old, now} {
		if m != 0 && m&kind != file && m&kind != 0 {
			return Mismatch("the part that starts at line %d is about a link or a submodule, not a file", line)
		}
	}
	if now != 0 {
		on := now&exec != 0
		d.Exec = &on
	}
	return nil
}
