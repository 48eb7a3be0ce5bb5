package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/command"
)

// commandsIn reads a list of commands. Those of a shell are given to one.
func commandsIn(t *testing.T, file string, shell bool) [][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	escapes := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\0`, "\x00", `\e`, "\x1b", `\x0b`, "\v", `\xa0`, "\u00a0")
	var out [][]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		script, marked := strings.CutPrefix(line, "$ ")
		switch {
		case line == "" || strings.HasPrefix(line, "# ") && line != "# only a comment":
		case shell || marked:
			out = append(out, []string{"sh", "-c", escapes.Replace(script)})
		default:
			out = append(out, wordsOf(line))
		}
	}
	return out
}

// wordsOf divides a line at spaces; single quotes keep words together.
func wordsOf(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// planned is a command as a plan has it: a program with a path is the file there,
// others are the system's.
func planned(argv []string) palyra.Request {
	r := inRoom(argv)
	if strings.Contains(argv[0], "/") {
		r.Plan.Executable.Path = argv[0]
		if !filepath.IsAbs(argv[0]) {
			r.Plan.Executable.Path = filepath.Join(r.Plan.Cwd, argv[0])
		}
	}
	return r
}

// Whatever can run programs, write or reach out is never allowed by its words
// alone, however it is written.
func TestWholeClassAsks(t *testing.T) {
	e := defaultEngine(t)
	programs := map[string]bool{}
	judge := func(argv []string) {
		v := e.Judge(t.Context(), planned(argv))
		if v.Effect == palyra.Allow {
			t.Errorf("%q is allowed: %+v", argv, command.Of(planned(argv).Plan))
		}
	}
	for _, argv := range commandsIn(t, "commands-ask.txt", false) {
		programs[argv[0]] = true
		judge(argv)
		for _, wrapper := range [][]string{{"nice"}, {"timeout", "5"}, {"env", "LANG=C"}, {"busybox"}, {"command"}} {
			judge(append(wrapper, argv...))
		}
	}
	for _, argv := range commandsIn(t, "commands-ask-shell.txt", true) {
		judge(argv)
		judge([]string{"bash", "-c", argv[2]})
		judge([]string{"busybox", "sh", "-c", argv[2]})
		judge([]string{"sh", "-ec", "ls && " + argv[2]})
	}
	if len(programs) < 150 {
		t.Errorf("only %d programs", len(programs))
	}
	t.Logf("%d programs", len(programs))
}

// And what people do all day is.
func TestWholeDayDoesNotNag(t *testing.T) {
	e := defaultEngine(t)
	all := commandsIn(t, "commands-allow.txt", false)
	if len(all) < 80 {
		t.Errorf("only %d commands", len(all))
	}
	for _, argv := range all {
		if v := e.Judge(t.Context(), planned(argv)); v.Effect != palyra.Allow {
			t.Errorf("%q: %s: %q", argv, v.Effect, command.Of(planned(argv).Plan).Why)
		}
	}
}
