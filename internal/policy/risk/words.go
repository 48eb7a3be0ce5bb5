package risk

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"palyra"
)

// CommandLine joins argv so that no two different ones give the same text: a word that is not plain is quoted.
func CommandLine(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = a
		if a == "" || strings.ContainsFunc(a, UnsafeInWord) {
			words[i] = strconv.Quote(a)
		}
	}
	return strings.Join(words, " ")
}

// ShellWord quotes a word for a command line, where it needs that.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, UnsafeInWord) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// TOMLList is a list of texts as the configuration takes it; JSON is the same there.
func TOMLList(list []string) string {
	raw, err := json.Marshal(list)
	if err != nil {
		return "[]"
	}
	return string(raw)
}

// hasUnseenInput reports whether the call gives its program something that policy does not see: input, or
// values of variables. Other input is another program to an interpreter.
func hasUnseenInput(p palyra.Plan) bool {
	var args struct {
		Env map[string]json.RawMessage `json:"env"`
	}
	err := json.Unmarshal(p.Arguments, &args)
	return p.Executable.Path != "" && (p.Stdin != "" || len(args.Env) > 0 || err != nil)
}

// scripted reports whether files decide what the program does: a script, a Makefile.
// A person sees their digests; policy does not, and another content is another call.
func scripted(p palyra.Plan) bool {
	return p.Executable.Path != "" && slices.ContainsFunc(p.Inputs, func(in palyra.Input) bool { return in.Digest != "" })
}

// Unseen names what a permit cannot be narrowed to; empty when the permit is as narrow as the call.
func Unseen(p palyra.Plan) string {
	var list []string
	if hasUnseenInput(p) {
		list = append(list, "any input and any values of variables")
	}
	if scripted(p) {
		list = append(list, "any content of the files that it runs")
	}
	return strings.Join(list, " and ")
}
