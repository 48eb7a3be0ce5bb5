package profile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"palyra"
	"palyra/internal/cell"
)

const (
	maxGitConfig = 256 << 10
	maxGitValue  = 256
)

// gitSettings are the settings taken over from a user's git configuration: none that runs a program, reads
// another file or changes what commands do.
type gitSettings struct{ name, email, branch, autocrlf string }

// gitConfig lays a configuration into the room's home that says who commits.
func (b *builder) gitConfig() {
	var s gitSettings
	if home, err := b.home(); err == nil {
		for _, p := range []string{".config/git/config", ".gitconfig"} { // the second wins, as with git
			raw, err := readOwned(path.Join(home, p), b.ws.Owner)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				b.out.Notes = append(b.out.Notes, "git's configuration ~/"+p+" is left out: it cannot be read safely")
			default:
				s.read(raw)
			}
		}
	}
	if s.name == "" || s.email == "" {
		b.out.Notes = append(b.out.Notes, "git knows no name and address of yours: set user.name and user.email in ~/.gitconfig")
	}
	b.addFile(palyra.RoomFile{Target: cell.RoomHome + "/.gitconfig", Text: s.text(b.ws.Path)})
}

// readOwned reads a small file of uid's own.
func readOwned(p string, uid int64) ([]byte, error) {
	f, err := openOwned(p, uid)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxGitConfig+1))
	if err == nil && len(raw) > maxGitConfig {
		err = errors.New("too long")
	}
	return raw, err
}

// read takes the known settings out of a configuration. Everything else, other
// sections, subsections and inclusions, is passed over.
func (s *gitSettings) read(raw []byte) {
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxGitConfig+1)
	for more := lines.Scan(); more; more = lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		for strings.HasSuffix(line, `\`) && !strings.HasSuffix(line, `\\`) && lines.Scan() {
			line = line[:len(line)-1] + lines.Text()
		}
		if strings.HasPrefix(line, "[") {
			name, rest, ok := strings.Cut(line[1:], "]")
			if section = ""; ok {
				section = strings.ToLower(strings.TrimSpace(name)) // a subsection has a quote in it
			}
			line = strings.TrimSpace(rest)
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if v, ok := gitValue(value); ok {
			s.set(section+"."+strings.ToLower(strings.TrimSpace(key)), v)
		}
	}
}

func (s *gitSettings) set(key, value string) {
	switch key {
	case "user.name":
		s.name = value
	case "user.email":
		s.email = value
	case "init.defaultbranch":
		if branchName(value) {
			s.branch = value
		}
	case "core.autocrlf":
		switch v := strings.ToLower(value); v {
		case "true", "false", "input":
			s.autocrlf = v
		}
	}
}

// gitValue reads a value: quotes, escapes, comments. It refuses what is long or has control characters.
func gitValue(raw string) (string, bool) {
	var b strings.Builder
	quoted, end := false, 0 // end: where blanks at the end begin
	raw = strings.TrimSpace(raw)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '"':
			quoted = !quoted
			end = b.Len()
			continue
		case (c == '#' || c == ';') && !quoted:
			i = len(raw)
			continue
		case c == '\\':
			if i++; i == len(raw) || !strings.ContainsRune(`\"`, rune(raw[i])) {
				return "", false
			}
			c = raw[i]
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			end = b.Len()
		}
	}
	v := strings.ToValidUTF8(b.String()[:end], "\uFFFD")
	odd := func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }
	return v, !quoted && len(v) <= maxGitValue && !strings.ContainsFunc(v, odd)
}

// branchName is strict where git is generous.
func branchName(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._/-", c) >= 0) {
			return false
		}
	}
	return s != "" && s[0] != '-' && s[0] != '/' && !strings.Contains(s, "..")
}

// text writes the configuration.
func (s *gitSettings) text(workspace string) string {
	var b strings.Builder
	section := func(name string, pairs ...[2]string) {
		head := "[" + name + "]\n"
		for _, p := range pairs {
			if p[1] != "" {
				b.WriteString(head + "\t" + p[0] + " = " + gitQuote(p[1]) + "\n")
				head = ""
			}
		}
	}
	section("user", [2]string{"name", s.name}, [2]string{"email", s.email})
	section("init", [2]string{"defaultBranch", s.branch})
	section("core", [2]string{"autocrlf", s.autocrlf})
	section("safe", [2]string{"directory", workspace}, [2]string{"directory", workspace + "/*"}, [2]string{"bareRepository", "explicit"})
	return b.String()
}

// gitEscapes is built when it is first used, which takes longer than to use it.
var gitEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)

// gitQuote writes a value so that git reads it back as it is.
func gitQuote(v string) string {
	return `"` + gitEscapes.Replace(v) + `"`
}
