package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellWord returns what a program gets for a word of a shell.
func shellWord(w *syntax.Word) word {
	b := &builder{glob: -1}
	for _, p := range w.Parts {
		b.part(p)
	}
	text := b.text.String()
	if text == "[" {
		b.glob = -1 // the program of that name
	}
	if b.brace && (strings.Contains(text, ",") || strings.Contains(text, "..")) {
		b.loose = true // {a,b} is more than one word to some shells
	}
	if b.glob >= 0 && hiddenPattern(text, b.glob) {
		b.loose = true
	}
	return word{text: text, glob: b.glob, loose: b.loose}
}

// hiddenPattern reports whether a pattern such as .* matches the directory above.
func hiddenPattern(text string, at int) bool {
	start := strings.LastIndexByte(text[:at], '/') + 1
	for part := range strings.SplitSeq(text[start:], "/") {
		if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "[") && !lettersOnly(part[1:]) {
			return true
		}
	}
	return false
}

// lettersOnly reports whether brackets hold letters and digits only. To some shells others match a dot that a
// name begins with.
func lettersOnly(part string) bool {
	set, _, _ := strings.Cut(part, "]")
	return !strings.ContainsFunc(set, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

type builder struct {
	text  strings.Builder
	glob  int
	brace bool
	loose bool
}

func (b *builder) part(p syntax.WordPart) {
	switch p := p.(type) {
	case *syntax.Lit:
		b.bare(p.Value)
	case *syntax.SglQuoted:
		b.loose = b.loose || p.Dollar
		b.text.WriteString(p.Value)
	case *syntax.DblQuoted:
		b.loose = b.loose || p.Dollar
		for _, q := range p.Parts {
			if lit, ok := q.(*syntax.Lit); ok {
				b.quoted(lit.Value)
				continue
			}
			b.loose = true
		}
	default:
		b.loose = true
	}
}

// bare adds a text that no quotes surround.
func (b *builder) bare(s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			i++
			switch {
			case i == len(s):
				b.loose = true // at the end of all, where shells differ
			case s[i] != '\n':
				b.text.WriteByte(s[i])
			}
			continue
		case '*', '?', '[':
			if b.glob < 0 {
				b.glob = b.text.Len()
			}
		case '{':
			b.brace = true
		}
		b.text.WriteByte(s[i])
	}
}

// quoted adds a text in double quotes, where a backslash hides little.
func (b *builder) quoted(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.text.WriteByte(s[i])
	}
}

// onlyVariables reports whether plain variables are the only parts of a word that are known later. Every
// other expansion can run something or set something.
func onlyVariables(w *syntax.Word) bool {
	ok := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case nil, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		case *syntax.ParamExp:
			ok = ok && simpleVariable(n)
		default:
			ok = false
		}
		return ok
	})
	return ok
}

func simpleVariable(p *syntax.ParamExp) bool {
	return !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil &&
		p.Names == 0 && p.Exp == nil && p.Flags == nil && p.NestedParam == nil && len(p.Modifiers) == 0 && p.Param != nil
}

// literal reports whether a text holds nothing that a shell replaces.
func literal(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if _, ok := p.(*syntax.Lit); !ok {
			return false
		}
	}
	return true
}
