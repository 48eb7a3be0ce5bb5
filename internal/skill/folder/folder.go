// Package folder reads the folders with a SKILL.md that people already have: what one is called, which scripts it has, and
// what these seem to want. Nothing of it runs. What is found is a proposal for a person to read: a script can hide what it
// reaches, and gets no more than what is granted.
package folder

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
)

const (
	maxShown   = 4 << 10 // of a description
	maxScripts = 64
	maxKind    = 32
)

var (
	// What of the workspace a script seems to read and write.
	reads  = regexp.MustCompile(`\bopen\(|\bargv\b|readFile|read_text|\$[1-9@*{]|\bcat\b|<[ \t]*["']?[\w$./]|\b(?:find|grep|ls|wc|head|tail)\b|ARGV|<>`)
	writes = regexp.MustCompile(`\bopen\([^)\n]{1,200},[ \t]*(?:mode[ \t]*=[ \t]*)?["'][waxr]?b?[+wax]|writeFile|appendFile|createWriteStream|write_text|write_bytes` +
		`|[^&0-9<>=-]>>?[ \t]*["']?[\w$./]|\b(?:mkdir|makedirs|touch|tee|cp|mv|rm|unlink|rmtree|copyfile)\b|\.save\(|\.to_csv\(`)

	link = regexp.MustCompile(`(?i)\bhttps?://([a-z0-9][a-z0-9.-]{0,250}[a-z0-9])(:[0-9]{1,5})?`)
)

// Manifest proposes the manifest of a folder, whose files are named as in a package. The id is the folder's name unless its
// SKILL.md has one.
func Manifest(files map[string][]byte, name, publisher string) (skill.Manifest, error) {
	if files[archive.Text] == nil { // in another case, it is still the text that people mean
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if strings.EqualFold(name, archive.Text) {
				files[archive.Text] = files[name]
				delete(files, name)
				break
			}
		}
	}
	raw, ok := files[archive.Text]
	if !ok {
		return skill.Manifest{}, refuse("it has no SKILL.md")
	}
	if !utf8.Valid(raw) {
		return skill.Manifest{}, refuse("its SKILL.md is not UTF-8 text")
	}
	about := front(raw)
	if about["name"] != "" {
		name = about["name"]
	}
	m := skill.Manifest{
		Format: skill.Format, ID: idOf(name), Version: "0.0.1", Publisher: publisher, Folder: &skill.Folder{},
		Description: plain(about["description"]),
	}
	if m.Description == "" {
		m.Description = "The folder " + m.ID + ", which does not describe itself."
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		rel := strings.TrimPrefix(file, archive.Folder)
		if program, _ := archive.Interpreter(rel, files[file]); program != "" && len(m.Folder.Scripts) < maxScripts {
			m.Folder.Scripts = append(m.Folder.Scripts, rel)
			m.Capabilities = m.Capabilities.Add("programs", program)
			if more := m.Capabilities.Add("programs", programs(program, files[file])...); len(more.Programs) <= maxKind {
				m.Capabilities = more
			}
			m.Capabilities = m.Capabilities.Add("hosts", hosts(files[file])...)
			if reads.Match(files[file]) {
				m.Capabilities = m.Capabilities.Add("read", ".")
			}
			if writes.Match(files[file]) {
				m.Capabilities = m.Capabilities.Add("write", ".")
			}
		}
	}
	if len(m.Capabilities.Hosts) > maxKind || len(m.Capabilities.Programs) > maxKind {
		return skill.Manifest{}, refuse("its scripts name more than %d hosts or programs", maxKind)
	}
	return skill.Check(m)
}

func refuse(format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, skill.ReasonArchive, "the folder is refused: "+format, args...).
		WithRemedy("name a folder with a SKILL.md; nothing was installed")
}

// front are the plain members of the block between two lines of dashes at the beginning of a SKILL.md.
func front(raw []byte) map[string]string {
	out := map[string]string{}
	raw = bytes.ReplaceAll(bytes.TrimPrefix(raw, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	text, ok := bytes.CutPrefix(raw, []byte("---\n"))
	if !ok {
		return out
	}
	block, _, ok := bytes.Cut(text, []byte("\n---"))
	if !ok {
		return out
	}
	last := ""
	for line := range strings.Lines(string(block)) {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") { // goes on with the member above, or is one of its own
			if more := strings.TrimSpace(line); last != "" && more != "" {
				out[last] = strings.TrimSpace(out[last] + " " + more)
			}
			continue
		}
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		last = ""
		if _, again := out[key]; !ok || again {
			continue
		}
		value = strings.TrimSpace(value)
		if folded := strings.Trim(value, "+-0123456789"); folded == ">" || folded == "|" { // its text is on the lines below
			value, last = "", key
		}
		out[key] = strings.Trim(value, `"'`)
	}
	return out
}

// idOf makes an id of a name.
func idOf(name string) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	return strings.Trim(id[:min(len(id), 40)], "-")
}

// plain is a text without what could deceive.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	return palyra.Clip(strings.TrimSpace(s), maxShown)
}

// hosts are the hosts that a script names by URL.
func hosts(raw []byte) (out []string) {
	for _, m := range link.FindAllSubmatch(raw, -1) {
		port := string(m[2])
		if port == "" {
			port = ":443"
			if bytes.HasPrefix(bytes.ToLower(m[0]), []byte("http:")) {
				port = ":80"
			}
		}
		out = append(out, strings.ToLower(string(m[1]))+port)
	}
	return out
}
