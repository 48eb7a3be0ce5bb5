package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"palyra/internal/config/home"
)

// maxFile is the largest configuration file that is read.
const maxFile = 1 << 20

// fromFile takes the values a file names. A file that does not exist names none.
func (c *Config) fromFile(path string, source Source) []Problem {
	raw, err := readFile(path)
	var unsafe unsafeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case source == fromUser && outOfReach(path):
		return []Problem{unusable(filepath.Dir(path), err)}
	case errors.As(err, &unsafe):
		return []Problem{{Where: path, Text: err.Error(), unsafe: true}}
	case err != nil:
		return []Problem{{Where: path, Text: err.Error()}}
	}
	return c.fromTOML(path, raw, source)
}

// outOfReach reports whether a file cannot be read because its directory cannot be used.
func outOfReach(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
}

// unusable is the problem of a directory that we cannot use.
func unusable(dir string, err error) Problem {
	return Problem{
		Text: fmt.Sprintf("uid %d cannot use the directory %s: %v", os.Getuid(), dir, withoutPath(err)), unusable: dir,
	}
}

// fromTOML takes the values a document names. Nothing is taken from a document
// with an error in it. Only an error in the grammar hides others.
func (c *Config) fromTOML(path string, raw []byte, source Source) []Problem {
	var doc map[string]any
	if err := toml.Unmarshal(raw, &doc); err != nil {
		return problemsOf(path, err)
	}
	lines, err := keyLines(raw)
	if err != nil {
		return problemsOf(path, err)
	}
	next := *c
	next.origins = maps.Clone(c.origins)
	next.Providers, next.Groups = cloneProviders(c.Providers), cloneGroups(c.Groups)
	var problems []Problem
	given := leaves(doc)
	for key, value := range given {
		where := fmt.Sprintf("%s:%d", path, lineOf(lines, key))
		err := next.take(key, value)
		s, _ := find(key)
		if _, both := given[s.key]; both && key == s.was {
			err = s.errTwice()
		}
		if err != nil {
			problems = append(problems, Problem{Where: where, Key: key, Text: err.Error()})
			continue
		}
		next.origins[cmp.Or(s.key, key)] = origin{source, where}
	}
	if problems == nil {
		*c = next // ranges are checked after the strongest place was read
		return nil
	}
	for _, p := range next.check() {
		if next.origins[p.Key].source == source {
			problems = append(problems, p) // lost with the document, so it is said now
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(lineOf(lines, a.Key), lineOf(lines, b.Key)), strings.Compare(a.Key, b.Key))
	})
	return problems
}

// take sets one key of a document.
func (c *Config) take(key string, value any) error {
	s, known := find(key)
	if known {
		return s.take(c, value)
	}
	if section(key) {
		return errors.New("this is a section: [" + key + "]")
	}
	if strings.HasPrefix(key, groupsSection+".") {
		return errors.New("a group is called by small letters, digits and hyphens, 32 at most")
	}
	return errors.New("unknown key")
}

// section reports whether a key is the name of a section.
func section(key string) bool {
	return key == providersSection || key == groupsSection ||
		slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// leaves lists the values of a document below its known sections: section.key, or the name of a section that
// is not known.
func leaves(doc map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range doc {
		table, ok := value.(map[string]any)
		if !ok || !section(name) {
			out[name] = value
			continue
		}
		for key, value := range table {
			inner, ok := value.(map[string]any)
			if !ok || name != providersSection || len(inner) == 0 {
				out[name+"."+key] = value
				continue
			}
			for last, value := range inner {
				out[name+"."+key+"."+last] = value
			}
		}
	}
	return out
}

// lineOf is the line on which a key, or the first one below it, is given.
func lineOf(lines map[string]int, key string) int {
	first := lines[key]
	for k, line := range lines {
		if strings.HasPrefix(k, key+".") && (first == 0 || line < first) {
			first = line
		}
	}
	return first
}

// problemsOf puts the parser's errors into ours.
func problemsOf(path string, err error) []Problem {
	var bad *toml.DecodeError
	var grammar *unstable.ParserError
	where, key, text := path, "", strings.TrimPrefix(err.Error(), "toml: ")
	switch {
	case errors.As(err, &bad):
		line, _ := bad.Position()
		where, key = fmt.Sprintf("%s:%d", path, line), strings.Join(bad.Key(), ".")
	case errors.As(err, &grammar):
		text = grammar.Message
	}
	return []Problem{{Where: where, Key: key, Text: text}}
}

// keyLines finds the line on which each key is given.
func keyLines(raw []byte) (map[string]int, error) {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(raw)
	var prefix []string
	for p.NextExpression() {
		e := p.Expression()
		keys, at := keyOf(e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			prefix = keys
			if path := strings.Join(keys, "."); lines[path] == 0 {
				lines[path] = 1 + bytes.Count(raw[:at], []byte("\n"))
			}
		case unstable.KeyValue:
			note(lines, slices.Concat(prefix, keys), e.Value(), 1+bytes.Count(raw[:at], []byte("\n")))
		}
	}
	return lines, p.Error()
}

// keyOf returns the parts of an expression's key and where the key starts.
func keyOf(e *unstable.Node) (keys []string, at int) {
	it := e.Key()
	for first := true; it.Next(); first = false {
		if first {
			at = int(it.Node().Raw.Offset)
		}
		keys = append(keys, string(it.Node().Data))
	}
	return keys, at
}

// note keeps the line of a key, also of those in an inline table.
func note(lines map[string]int, path []string, value *unstable.Node, line int) {
	if value.Kind != unstable.InlineTable {
		lines[strings.Join(path, ".")] = line
		return
	}
	it := value.Children()
	for it.Next() {
		keys, _ := keyOf(it.Node())
		note(lines, slices.Concat(path, keys), it.Node().Value(), line)
	}
}

// unsafeError is a file that somebody else could have written.
type unsafeError string

func (e unsafeError) Error() string { return string(e) }

// Unsafe reports whether err is about a file that somebody else could read or write.
func Unsafe(err error) bool {
	var unsafe unsafeError
	return errors.As(err, &unsafe)
}

// readFile reads a regular file that nobody but its owner can write.
func readFile(path string) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if why := writableByOthers(info); why != "" {
		return nil, unsafeError(why)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("larger than %d bytes", maxFile)
	}
	return raw, nil
}

// withoutPath drops the path from a file error: Problem.Where has it.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// ReadPrivate reads a small file that nobody but its owner can read or write.
func ReadPrivate(path string, limit int64) ([]byte, error) {
	f, err := openPlain(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, withoutPath(err)
	}
	why := home.Foreign(info)
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case why != "":
		return nil, unsafeError(why)
	case info.Mode().Perm()&0o077 != 0:
		return nil, unsafeError(fmt.Sprintf("has mode %04o: others could read it", info.Mode().Perm()))
	case info.Size() > limit:
		return nil, fmt.Errorf("larger than %d bytes", limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
