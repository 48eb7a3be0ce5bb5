package dotenv

import (
	"fmt"
	"path"
	"strings"

	"palyra/internal/trusted"
)

// Names says which files count: .env, what begins with it and a dot, hyphen or underscore, what ends in it, and the names that an
// operator adds. A file whose name ends in .example, .sample or .template is made to be shown; .env.example.local is not.
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
	for _, m := range n.more {
		if ok, err := path.Match(m, low); ok && err == nil {
			return true
		}
	}
	for _, end := range shown {
		if strings.HasSuffix(low, end) {
			return false
		}
	}
	if low == ".env" || strings.HasSuffix(low, ".env") {
		return true
	}
	rest, ok := strings.CutPrefix(low, ".env")
	return ok && strings.ContainsRune(".-_", rune(rest[0]))
}
