package jobobject

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

func sample(t testing.TB) sandbox.Job {
	t.Helper()
	j := sandbox.Job{
		Call: "01JABCDEFGHJKMNPQRSTVWXYZ0", Path: `C:\Program Files\Git\bin\git.exe`, Argv: []string{"git", "log", "a b"},
		Env:       []string{"LANG=C"},
		Workspace: `C:\Users\ada\work`, Cwd: `C:\Users\ada\work\sub`, Private: `C:\ProgramData\palyra\run-1`,
		Limits: palyra.Limits{Processes: 7, MemoryBytes: 1<<20 + 1, CPUMS: 1500},
	}
	for _, f := range []**os.File{&j.Stdin, &j.Stdout, &j.Stderr} {
		var err error
		if *f, err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { j.CloseFiles() })
	return j
}

func TestResolve(t *testing.T) {
	p, err := resolve(sample(t), "state", system{`C:\Windows`})
	if err != nil {
		t.Fatal(err)
	}
	if p.program != `C:\Program Files\Git\bin\git.exe` || p.command != `"git" log "a b"` || p.dir != `C:\Users\ada\work\sub` {
		t.Errorf("%s, %s, %s", p.program, p.command, p.dir)
	}
	if want := (jobPlan{flags: 0x260c, processes: 7, memory: 1 << 20, time: 15_000_000, ui: 0xff}); p.job != want {
		t.Errorf("%+v, want %+v", p.job, want)
	}
	if p.job.flags&breakaway != 0 || p.job.flags&killOnClose == 0 {
		t.Errorf("flags %x", p.job.flags)
	}
	tok := p.token
	if tok.flags != noPrivileges|luaToken || tok.integrity != "S-1-16-4096" || !slices.Contains(tok.deny, "S-1-5-32-544") || !tok.logon {
		t.Errorf("%+v", tok)
	}
	if got := tok.restrict; len(got) != 5 || got[0] != workspaceSID("state", `C:\Users\ada\work`) || tok.owner != got[1] || got[0] == got[1] {
		t.Errorf("%v", got)
	}
	for _, s := range tok.restrict { // what restricts gives nothing that is only the user's, or an administrator's
		if strings.HasPrefix(s, "S-1-5-32-") && s != users || s == localSystem || s == "S-1-5-11" {
			t.Errorf("%s restricts", s)
		}
	}
	const forbidden = 0x1<<36 | 0x1<<44 | 0x1<<56 // programs that make code, images that are not Microsoft's, images of low integrity
	if p.mitigations&forbidden != 0 ||
		p.mitigations&(depEnable|noExtensionPoints|noRemoteImages) != depEnable|noExtensionPoints|noRemoteImages {
		t.Errorf("mitigations %x", p.mitigations)
	}
}

func TestAccessIsToWorkAndNoMore(t *testing.T) {
	j := sample(t)
	p, err := resolve(j, "state", system{`C:\Windows`})
	if err != nil {
		t.Fatal(err)
	}
	work, run := p.token.restrict[0], p.token.restrict[1]
	want := []access{
		{j.Workspace, work, 0x1201bf, hereOnly, true},
		{j.Workspace, work, 0x1301bf, inOnly, true},
		{j.Private, run, 0x1200a9, hereOnly, false},
		{j.Private + `\home`, run, 0x1201bf, hereOnly, true},
		{j.Private + `\home`, run, 0x1301bf, inOnly, true},
		{j.Private + `\tmp`, run, 0x1201bf, hereOnly, true},
		{j.Private + `\tmp`, run, 0x1301bf, inOnly, true},
		{j.Private + `\exe`, run, 0x1200a9, hereAndIn, false},
	}
	if !slices.Equal(p.access, want) {
		t.Errorf("%+v", p.access)
	}
	for _, a := range p.access {
		if a.rights&(deleteIn|writeDAC|writeOwner) != 0 {
			t.Errorf("%+v gives too much", a)
		}
		if a.inherit == hereOnly && a.rights&deleteItself != 0 {
			t.Errorf("%+v can be taken away", a)
		}
		if a.sid != work && a.sid != run {
			t.Errorf("%+v is given to others", a)
		}
	}
	if got := defaultDACL("S-1-5-21-1", run); got != "D:(A;;GA;;;S-1-5-21-1)(A;;GA;;;S-1-5-18)(A;;GA;;;"+run+")" {
		t.Error(got)
	}
	if lowLabel != "S:(ML;OICI;NW;;;LW)" { // a mandatory label, inherited by all, no writing up, low
		t.Error(lowLabel)
	}
}

func TestSIDs(t *testing.T) {
	form := regexp.MustCompile(`^S-1-5-21(-[0-9]{1,10}){4}$`)
	a := workspaceSID("s", `C:\Users\Ada\Work`)
	if !form.MatchString(a) || a != workspaceSID("s", `c:\users\ada\work`) {
		t.Errorf("%s", a)
	}
	for _, b := range []string{
		workspaceSID("t", `C:\Users\Ada\Work`), workspaceSID("s", `C:\Users\Ada\Work2`),
		ownSID("run", "s", `c:\users\ada\work`),
	} {
		if a == b {
			t.Errorf("%s twice", a)
		}
	}
}

func TestLimits(t *testing.T) {
	l := limits(palyra.Limits{})
	if l.processes != defaultProcesses || l.memory != defaultMemory || l.time != defaultCPUMS*unitsPerMilli || !l.heldBy(l) {
		t.Errorf("%+v", l)
	}
	if big := limits(palyra.Limits{Processes: 1 << 40, MemoryBytes: 1, CPUMS: 1 << 62}); big.processes != allProcesses ||
		big.memory != page || big.time <= 0 {
		t.Errorf("%+v", big)
	}
	for name, spoil := range map[string]func(*jobPlan){
		"flags":     func(p *jobPlan) { p.flags &^= killOnClose },
		"breakaway": func(p *jobPlan) { p.flags |= 0x800 },
		"silently":  func(p *jobPlan) { p.flags |= 0x1000 },
		"processes": func(p *jobPlan) { p.processes++ },
		"memory":    func(p *jobPlan) { p.memory++ },
		"no memory": func(p *jobPlan) { p.memory = 0 },
		"time":      func(p *jobPlan) { p.time++ },
		"windows":   func(p *jobPlan) { p.ui = 0x7f },
	} {
		got := l
		if spoil(&got); l.heldBy(got) {
			t.Errorf("%s is held by %+v", name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(*sandbox.Job)
		reason palyra.Reason
	}{
		"no stream":         {func(j *sandbox.Job) { j.Stdin = nil }, palyra.ReasonMalformedInput},
		"relative program":  {func(j *sandbox.Job) { j.Path = `git.exe` }, palyra.ReasonMalformedInput},
		"share":             {func(j *sandbox.Job) { j.Path = `\\server\share\x.exe` }, palyra.ReasonMalformedInput},
		"batch":             {func(j *sandbox.Job) { j.Path = `C:\x\run.BAT` }, palyra.ReasonNotExecutable},
		"cmd":               {func(j *sandbox.Job) { j.Path = `C:\x\npm.cmd` }, palyra.ReasonNotExecutable},
		"everything":        {func(j *sandbox.Job) { j.Workspace, j.Cwd = `C:\`, `C:\` }, palyra.ReasonMalformedInput},
		"cwd outside":       {func(j *sandbox.Job) { j.Cwd = `C:\Users\ada\worker` }, palyra.ReasonMalformedInput},
		"no private":        {func(j *sandbox.Job) { j.Private = "" }, palyra.ReasonMalformedInput},
		"private in it":     {func(j *sandbox.Job) { j.Private = j.Workspace + `\p` }, palyra.ReasonMalformedInput},
		"workspace in it":   {func(j *sandbox.Job) { j.Private = `C:\Users` }, palyra.ReasonMalformedInput},
		"no argv":           {func(j *sandbox.Job) { j.Argv = nil }, palyra.ReasonMalformedInput},
		"seals":             {func(j *sandbox.Job) { j.Seals = []string{".git/"} }, palyra.ReasonTierUnavailable},
		"mounts":            {func(j *sandbox.Job) { j.Mounts = make([]palyra.Mount, 1) }, palyra.ReasonTierUnavailable},
		"files":             {func(j *sandbox.Job) { j.Files = make([]palyra.RoomFile, 1) }, palyra.ReasonTierUnavailable},
		"doors":             {func(j *sandbox.Job) { j.Doors = make([]cell.Listener, 1) }, palyra.ReasonTierUnavailable},
		"unix":              {func(j *sandbox.Job) { j.Unix = true }, palyra.ReasonTierUnavailable},
		"terminal":          {func(j *sandbox.Job) { j.Terminal = true }, palyra.ReasonTierUnavailable},
		"copy":              {func(j *sandbox.Job) { j.Sealed = os.Stdin }, palyra.ReasonTierUnavailable},
		"quotes in a name":  {func(j *sandbox.Job) { j.Argv = []string{`a"b`} }, palyra.ReasonMalformedInput},
		"a variable's name": {func(j *sandbox.Job) { j.Env = []string{"=x"} }, palyra.ReasonEnvDenied},
	} {
		j := sample(t)
		c.spoil(&j)
		if _, err := resolve(j, "s", system{`C:\Windows`}); palyra.AsError(err).Reason != c.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPaths(t *testing.T) {
	for p, want := range map[string]bool{
		`C:\x`: true, `c:\Users\Ada Lovelace\wörk`: true, `C:\a.b\c-d_e`: true, `C:\concert\nullify\com10`: true,
		``: false, `C:`: false, `C:\`: false, `C:x`: false, `\x`: false, `/x`: false, `C:/x`: false, `C:\x/y`: false, `C:\x\`: false,
		`C:\\x`: false, `C:\x\..\y`: false, `C:\.\y`: false,
		`C:\x.`: false, `C:\x \y`: false, `C:\x:stream`: false, `C:\a"b`: false, `C:\a|b`: false, `C:\a*`: false, "C:\\a\nb": false,
		`\\?\C:\x`: false, `\\.\pipe\x`: false, `1:\x`: false,
		`C:\nul`: false, `C:\x\CON.txt`: false, `C:\com1`: false, `C:\COM¹`: false, `C:\lpt9.log`: false, `C:\aux .x`: false, "C:\\\xff": false,
		`C:\` + strings.Repeat("a", maxPath): false,
	} {
		if got := clean(p); got != want {
			t.Errorf("%q is clean: %t", p, got)
		}
	}
	if !within(`C:\Work`, `c:\work\SUB`) || !within(`C:\Work`, `C:\Work`) || within(`C:\Work`, `C:\Workers`) ||
		within(`C:\Work\x`, `C:\Work`) {
		t.Error("within")
	}
	for p, want := range map[string]bool{`C:\a.bat`: true, `C:\a.CMD`: true, `C:\a.cmd. .`: true, `C:\a.exe`: false, `C:\bat`: false} {
		if batch(p) != want {
			t.Errorf("%s is a batch file: %t", p, !want)
		}
	}
}

// A path that is clean means the same to whoever reads it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{`C:\x`, `C:\x\..\y`, `C:\x. `, `C:\nul`, `C:\a\b`} {
		f.Add(s, s+`\z`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !clean(a) {
			return
		}
		if strings.ContainsAny(a[3:], `/:*?"<>|`+"\x00") || strings.Contains(a, `\\`) || strings.Contains(a+`\`, `.\`) ||
			strings.Contains(a+`\`, ` \`) {
			t.Errorf("%q is clean", a)
		}
		if within(a, b) && !strings.EqualFold(b, a) && !strings.HasPrefix(strings.ToLower(b), strings.ToLower(a)+`\`) &&
			len(b) == len([]rune(b)) {
			t.Errorf("%q is within %q", b, a)
		}
	})
}
