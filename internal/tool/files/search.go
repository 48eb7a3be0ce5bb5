//go:build unix

package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp/syntax"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/pattern"
	"palyra/internal/tool"
)

// The bounds of one search. The first one that is reached ends it, and the result names it.
const (
	defaultMatches  = 100
	maxSearchedFile = 8 << 20  // larger files are skipped
	maxLine         = 400      // bytes of a line shown
	maxLineSearched = 64 << 10 // the rest of a longer line is skipped
	lineWork        = 64       // work for a line itself
	lookUp          = 1 << 14  // work of the pattern between two checks of the clock
)

// bounds are those of a whole search.
type bounds struct {
	files int
	bytes int64
	time  time.Duration
}

var searchBounds = bounds{files: 50_000, bytes: 512 << 20, time: 30 * time.Second}

type searcher struct{ *shared }

const searchSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["pattern"],
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "Regular expression (RE2 syntax: no back-references or look-around), matched line by line."},
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File or directory to search, relative to the workspace. Default: the workspace itself."},
    "glob": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Only files whose name matches, e.g. *.go; with a slash the path from the workspace is matched, e.g. src/**/*.ts. No braces."},
    "ignore_case": {"type": "boolean", "description": "Match upper and lower case alike. Default false."},
    "max_results": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Most matching lines to return. Default 100."}
  }
}`

// Spec implements tool.Tool.
func (searcher) Spec() palyra.Tool {
	return spec(palyra.ToolFileSearch, "Search files",
		"Searches the text files of the workspace for a regular expression and returns the matching lines with path, line and column. "+
			"Passes by links, .git directories, binary files, files over 8 MiB and what is beyond 64 KiB of a line.",
		searchSchema)
}

type searchArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	MaxResults int    `json:"max_results"`
}

// Plan implements tool.Tool.
func (t searcher) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	var a searchArgs
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	s, err := newSearch(ctx, a, searchBounds)
	if err != nil {
		return err
	}
	rel, err := t.planRead(ctx, env, p, a.Path, func(r *root, real string) error { return r.hidesBelow(real, s.glob) })
	p.Detail.Summary = "search " + quoteUnlessPlain(rel) + " for " + quoteUnlessPlain(a.Pattern)
	return err
}

type match struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"` // byte, from 1
	Text   string `json:"text"`
}

type searchResult struct {
	Matches   []match        `json:"matches"`
	Searched  int            `json:"files_searched"`
	Skipped   map[string]int `json:"files_skipped,omitempty"` // number by reason
	Truncated string         `json:"truncated,omitempty"`     // the bound that ended the search
}

// search is one search under way.
type search struct {
	ctx  context.Context
	re   *pattern.Pattern
	work int // since the last check of the clock
	glob *glob
	most int
	bounds
	until time.Time
	read  int64
	shown func(rel string, b []byte) ([]byte, error) // a file as it may be shown
	res   searchResult
}

func newSearch(ctx context.Context, a searchArgs, b bounds) (*search, error) {
	s := &search{ctx: ctx, most: a.MaxResults, bounds: b, until: time.Now().Add(b.time)}
	s.res = searchResult{Matches: []match{}, Skipped: map[string]int{}}
	s.most = cmp.Or(s.most, defaultMatches)
	flags := ""
	if a.IgnoreCase {
		flags = "(?i)"
	}
	var err error
	if s.re, err = pattern.Compile(flags + a.Pattern); errors.Is(err, pattern.ErrTooHeavy) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "argument \"pattern\" repeats too much: it would take too long").
			WithRemedy("write fewer and smaller repetitions, or search for a part of it").WithCause(err)
	}
	if err != nil {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "argument \"pattern\" is not a regular expression: %s",
			reason(err)).
			WithRemedy("write it in RE2 syntax; quote special characters with \\").WithCause(err)
	}
	if a.Glob != "" {
		g, err := newGlob(a.Glob)
		if err != nil {
			return nil, err
		}
		s.glob = &g
	}
	return s, nil
}

// reason is the fault of a pattern, without repeating the pattern.
func reason(err error) string {
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		return e.Code.String()
	}
	return "it cannot be compiled"
}

// Run implements tool.Tool.
func (t searcher) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a searchArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	real, err := planned(p)
	if err != nil {
		return nil, err
	}
	s, err := newSearch(ctx, a, searchBounds)
	if err != nil {
		return nil, err
	}
	release, err := t.take(ctx, env, maxSearchedFile+bytesOfNames)
	if err != nil {
		return nil, err
	}
	defer release()
	err = t.inWorkspace(ctx, p.Workspace, func(r *root) error { return s.start(r, real) })
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return tool.Encode(s.res)
}

// start searches one file, or a directory.
func (s *search) start(r *root, rel string) error {
	s.shown = r.shownOf
	w := walker{ctx: s.ctx, deep: true, visit: s.visit}
	err := w.walk(r, rel)
	if palyra.AsError(err).Reason == palyra.ReasonPathInvalid && errors.Is(err, unix.ENOTDIR) {
		f, _, err := r.regular(rel)
		if err != nil {
			return err
		}
		b, err := readAll(f, rel, maxSearchedFile)
		_ = f.Close()
		if err != nil {
			return err
		}
		return s.text(rel, b)
	}
	if w.unreadable > 0 {
		s.res.Skipped["unreadable"] += w.unreadable
	}
	return err
}

func (s *search) visit(e dirEntry) error {
	if e.st.Mode&unix.S_IFMT != unix.S_IFREG || s.glob != nil && !s.glob.match(e.rel) {
		return nil
	}
	switch {
	case s.res.Searched >= s.files:
		return s.stop("files")
	case s.read >= s.bytes:
		return s.stop("bytes")
	case time.Now().After(s.until):
		return s.stop("time")
	case e.st.Size > maxSearchedFile:
		s.res.Skipped["too_large"]++
		return nil
	}
	f, _, err := regularAt(e.dir, e.name, e.rel)
	if err != nil {
		s.res.Skipped["unreadable"]++
		return nil
	}
	defer func() { _ = f.Close() }()
	b, err := readAll(f, e.rel, maxSearchedFile)
	if err != nil {
		s.res.Skipped["unreadable"]++
		return nil
	}
	return s.text(e.rel, b)
}

func (s *search) stop(why string) error {
	s.res.Truncated = why
	return errEnough
}

// alive returns an error when a search is cancelled or over its time.
func (s *search) alive() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if time.Now().After(s.until) {
		return s.stop("time")
	}
	return nil
}

// text searches the lines of one file.
func (s *search) text(rel string, b []byte) (err error) {
	s.read += int64(len(b))
	if s.shown != nil {
		if b, err = s.shown(rel, b); err != nil {
			return err
		}
	}
	if looksBinary(b) {
		s.res.Skipped["binary"]++
		return nil
	}
	s.res.Searched++
	for n := 1; len(b) > 0; n++ {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		line = line[:min(len(line), maxLineSearched)]
		if s.work += s.re.Work(len(line)) + lineWork; s.work > lookUp {
			if err := s.alive(); err != nil {
				return err
			}
			s.work = 0
		}
		at, err := s.re.Find(line, s.alive)
		if err != nil {
			return err
		}
		if at == nil {
			continue
		}
		if len(s.res.Matches) == s.most {
			return s.stop("max_results")
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		s.res.Matches = append(s.res.Matches, match{
			Path: palyra.Clip(textOf(rel), maxPath), Line: n, Column: at[0] + 1,
			Text: palyra.Clip(string(line), maxLine),
		})
	}
	return nil
}
