package screen

import "strings"

// shellWord quotes one word so that every POSIX shell reads it back unchanged. Between single
// quotes only the quote itself has a meaning.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:=", r)
	}) && s[0] != '=' { // zsh looks up the program of a word that begins so
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ShellLine joins words to a line that a shell splits into the same words.
func ShellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	return strings.Join(quoted, " ")
}
