package folder

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// shells are the programs whose scripts name other programs as plain words.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh"}

// ownWords are words of shells that start no program.
var ownWords = strings.Fields(`
	. : [ [[ ! { } alias bg break builtin case cd command continue declare dirs disown do done echo elif else enable esac eval exec
	exit export false fc fg fi for function getopts hash help history if in jobs kill let local logout mapfile popd printf pushd pwd
	read readarray readonly return select set shift shopt source suspend test then time times trap true type typeset ulimit umask
	unalias unset until wait while
`)

var (
	// leading are words behind which a command begins.
	leading = regexp.MustCompile(`(?m)(^|[ \t;&|(])(?:then|do|else|if|elif|while|until|exec|command|time|sudo|xargs|env|!)[ \t]`)
	// commandWord is a word where a command begins: of a line, or behind what joins commands.
	commandWord = regexp.MustCompile("(?m)(?:^|[|&;(`{])[ \\t]*" +
		"(?:[A-Za-z_][A-Za-z0-9_]*=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\\s;|&\"']*)[ \\t]+)*([a-z][a-z0-9._+-]*)(?:[ \\t;|&)<>`]|$)")
	functionName = regexp.MustCompile(`(?m)^[ \t]*(?:function[ \t]+)?([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\(\)`)
	pattern1     = regexp.MustCompile(`(?m)^[ \t]*[A-Za-z0-9_*|"' .-]+\)`) // of a case
	comment      = regexp.MustCompile(`(?m)(?:^|[ \t])#.*$`)
	quoted       = regexp.MustCompile(`'[^']*'`)
	hereText     = regexp.MustCompile(`(?ms)<<-?[ \t]*['"]?([A-Za-z_]+)['"]?[^\n]*\n.*?^[ \t]*([A-Za-z_]+)[ \t]*$`)
	// started is the first word of what a script of another language starts.
	started = regexp.MustCompile(`\b(?:subprocess\.(?:run|call|check_call|check_output|Popen)|(?:exec|spawn)(?:File)?(?:Sync)?|` +
		`os\.(?:system|popen|execvp)|shutil\.which|system|create_subprocess_exec)\(\s*\[?\s*f?["'` + "`" + `]([a-z][a-z0-9._+-]*)["'` + "`" + `\s]`)
)

// programs are those that a script seems to start, beside the one that runs it.
func programs(by string, raw []byte) (out []string) {
	add := func(name string) {
		if name = strings.TrimRight(name, "."); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if !slices.Contains(shells, by) {
		for _, m := range started.FindAllSubmatch(raw, -1) {
			add(string(m[1]))
		}
		return out
	}
	text := hereText.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r"), nil), nil)
	text = pattern1.ReplaceAll(quoted.ReplaceAll(comment.ReplaceAll(text, nil), []byte("''")), []byte(";"))
	own := map[string]bool{}
	for _, m := range functionName.FindAllSubmatch(text, -1) {
		own[string(m[1])] = true
	}
	for range 3 { // behind one another
		text = leading.ReplaceAll(text, []byte("$1; "))
	}
	for _, m := range commandWord.FindAllSubmatch(text, -1) {
		if name := string(m[1]); !own[name] && !slices.Contains(ownWords, name) {
			add(name)
		}
	}
	return out
}
