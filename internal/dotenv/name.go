package dotenv

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"palyra/internal/trusted"
)

// Names says which files count: what begins with .env, what has it in its name and no letter after it (prod.env, prod.env.bak), and
// the names that an operator adds; and what editors make of these (prod.env~, #.env#, .#.env). A file whose name ends in .example,
// .sample or .template is made to be shown; .env.example.local is not.
type Names struct{ more []string }

// shown are the ends of names that do not count.
var shown = []string{".example", ".sample", ".template"}

const (
	maxMore = 64
	maxName = 255
)

// NewNames adds names of an operator's: of files, not paths, in which a star stands for any characters.
func NewNames(more []string) (Names, error) {
	var n Names
	for _, name := range more {
		if err := CheckName(name); err != nil {
			return Names{}, err
		}
		n.more = append(n.more, trusted.Folded(name))
	}
	if len(n.more) > maxMore {
		return Names{}, fmt.Errorf("more than %d names", maxMore)
	}
	return n, nil
}

// CheckName refuses what cannot be the name of a file.
func CheckName(name string) error {
	_, err := path.Match(name, "")
	if err != nil || name == "" || len(name) > maxName || strings.Contains(name, "/") || strings.Trim(name, "*?.") == "" {
		return fmt.Errorf("%q is not the name of a file, like .env or *.secrets", name)
	}
	return nil
}

// Count reports whether a file of that name is masked. Names are compared as any file system may read them.
func (n Names) Count(name string) bool {
	low := trusted.Folded(name)
	for _, name := range []string{low, ofEditors(low)} {
		if slices.ContainsFunc(n.more, func(m string) bool { ok, err := path.Match(m, name); return ok && err == nil }) {
			return true
		}
	}
	low = ofEditors(low)
	for _, end := range shown {
		if strings.HasSuffix(low, end) {
			return false
		}
	}
	const env = ".env"
	if strings.HasPrefix(low, env) {
		return true
	}
	for i := strings.Index(low, env); i >= 0; {
		low = low[i+len(env):]
		if low == "" || low[0] < 'a' || low[0] > 'z' {
			return true
		}
		i = strings.Index(low, env)
	}
	return false
}

// ofEditors is the name of the file that an editor's backup, lock or unsaved work is of.
func ofEditors(name string) string {
	if lock, ok := strings.CutPrefix(name, ".#"); ok {
		name = lock
	}
	return strings.TrimRight(strings.Trim(name, "#"), "~#")
}
