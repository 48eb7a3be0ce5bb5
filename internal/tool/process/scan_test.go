package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	programs "palyra/internal/program"
)

func scanned(t *testing.T, line string) findings {
	t.Helper()
	words := strings.Split(line, " ")
	r := ruleFor(words[0])
	if r == nil {
		t.Fatalf("no rule for %s", words[0])
	}
	return scan(r, words[1:])
}

// Arguments of any size cost no more than to read them once: this happens before policy
// judges.
func TestScanOfLongClusters(t *testing.T) {
	args := []string{"-" + strings.Repeat("Z", 128<<10)}
	for range 30 {
		args = append(args, args[0])
	}
	for range 4000 {
		args = append(args, "a")
	}
	for _, name := range []string{"make", "python3", "awk", "go", "java"} {
		begun := time.Now()
		if scan(ruleFor(name), args); time.Since(begun) > 30*time.Second { // minutes when each letter copies the arguments
			t.Errorf("%s took %s", name, time.Since(begun))
		}
	}
}

func TestScan(t *testing.T) {
	for line, want := range map[string]findings{
		"expect -c true s.exp":                      {operand: "s.exp"},
		"expect -b s.exp x":                         {files: []string{"s.exp"}, operand: "x"},
		"expect -bdn":                               {files: []string{"dn"}},
		"julia -O 2 s.jl":                           {unsure: true, maybe: []string{"2", "s.jl"}, operand: "2"},
		"go run . -o out.txt":                       {},
		"go run main.go -config cfg.yaml":           {files: []string{"main.go"}},
		"sh x.sh a b":                               {operand: "x.sh"},
		"bash -eu -o pipefail x.sh -c":              {operand: "x.sh"},
		"bash -euo pipefail x.sh":                   {operand: "x.sh"},
		"bash +x -- -x.sh":                          {operand: "-x.sh"},
		"bash -xc true x.sh":                        {},
		"sh -s x":                                   {},
		"sh -":                                      {},
		"sh":                                        {},
		"bash --rcfile rc x.sh":                     {files: []string{"rc"}, operand: "x.sh"},
		"bash --norc x.sh":                          {operand: "x.sh"},
		"python3 -W ignore -X dev x.py":             {operand: "x.py"},
		"python3.11 -Bu x.py -m y":                  {operand: "x.py"},
		"python -m pytest x.py":                     {},
		"python -c code x.py":                       {},
		"python -Bc code x.py":                      {},
		"/usr/bin/python3 x.py":                     {operand: "x.py"},
		"node -r ./hook.js x.js --eval":             {files: []string{"./hook.js"}, operand: "x.js"},
		"node --require=./hook.js --import h.mjs x": {files: []string{"./hook.js", "h.mjs"}, operand: "x"},
		"node -e code x.js":                         {},
		"node --eval code":                          {},
		"node --print=1 x.js":                       {},
		"node --inspect x.js":                       {operand: "x.js"},
		"perl -w -Ilib x.pl":                        {operand: "x.pl"},
		"perl -I lib x.pl":                          {operand: "x.pl"},
		"perl -lne code x":                          {},
		"perl -0777 -pe code x":                     {},
		"perl -pie code x":                          {operand: "code"}, // -i takes the e, as in perl itself
		"perl -ne code x":                           {},
		"perl -i.tome x.pl":                         {operand: "x.pl"},
		"ruby -C sub -r json x.rb":                  {dir: "sub", operand: "x.rb"},
		"awk -f x.awk data":                         {files: []string{"x.awk"}},
		"awk -F : -vx=1 -f a -f b":                  {files: []string{"a", "b"}},
		"gawk --file=x data":                        {files: []string{"x"}},
		"awk {print} data":                          {},
		"sed -n -f x.sed data":                      {files: []string{"x.sed"}},
		"sed -nf x.sed data":                        {files: []string{"x.sed"}},
		"sed -nfx.sed data":                         {files: []string{"x.sed"}},
		"sed -f - data":                             {},
		"sed s/a/b/ data":                           {},
		"make":                                      {defaults: true},
		"make all -j4 -k":                           {defaults: true},
		"make -f other.mk all":                      {files: []string{"other.mk"}},
		"make --makefile=other.mk":                  {files: []string{"other.mk"}},
		"make -kC sub -Csub2 -f x":                  {files: []string{"x"}, dir: "sub/sub2"},
		"make -C sub -C /abs":                       {dir: "/abs", defaults: true},
		"make --makef=evil.mk":                      {files: []string{"evil.mk"}},
		"make --makef evil.mk":                      {files: []string{"evil.mk"}},
		"make --fil x --dir sub":                    {files: []string{"x"}, dir: "sub"},
		"make --touch --no-print -f x":              {files: []string{"x"}},
		"make -file x":                              {files: []string{"ile"}}, // as getopt reads it
		"sed --fil=x data":                          {files: []string{"x"}},
		"sed --fil x data":                          {files: []string{"x"}},
		"sed --f x data":                            {}, // also --follow-symlinks: sed refuses it
		"sed -file x":                               {files: []string{"ile"}},
		"awk --fi x data":                           {}, // also --field-separator
		"awk --fil x data":                          {files: []string{"x"}},
		"bash --rcf rc x.sh":                        {files: []string{"rc"}, operand: "x.sh"},
		"bash -rcfile rc x.sh":                      {files: []string{"rc"}, operand: "x.sh"},
		"node --frob x.js y.js":                     {unsure: true, maybe: []string{"x.js", "y.js"}, operand: "x.js"},
		"node --frob=x.js y.js":                     {maybe: []string{"x.js"}, operand: "y.js"},
		"node y.js --frob x.js":                     {operand: "y.js"},
		"python3 -Z x y.py":                         {unsure: true, maybe: []string{"x", "y.py"}, operand: "x"},
		"python3 -Zx y.py":                          {unsure: true, maybe: []string{"x", "y.py"}, operand: "y.py"},
		"python3 -BZc y.py":                         {unsure: true, maybe: []string{"c", "y.py"}}, // c may be a value
		"bash -eZ x y.sh":                           {unsure: true, maybe: []string{"x", "y.sh"}, operand: "x"},
		"bash +Z x y.sh":                            {unsure: true, maybe: []string{"x", "y.sh"}, operand: "x"},
		"node x.js -Z y.js":                         {operand: "x.js"},
		"java -Xmx1g -Da=b Main.java":               {files: []string{"Main.java"}},
		"java -frob x Main.java":                    {unsure: true, maybe: []string{"rob", "x", "Main.java"}},
		"tcsh -d x.csh":                             {operand: "x.csh"},
		"guile -e main x.scm":                       {operand: "x.scm"},
		"make -Z x -f y":                            {files: []string{"y"}},
		"python --frob -c x.py":                     {unsure: true, maybe: []string{"-c", "x.py"}},
		"python -c code --frob x.py":                {},
		"go run --frob main.go":                     {files: []string{"main.go"}, unsure: true, maybe: []string{"main.go"}},
		"go build --frob main.go":                   {},
		"go run -exec wrap main.go":                 {files: []string{"main.go"}, wrapped: "wrap"},
		"make -f":                                   {defaults: true},
		"npm run build":                             {defaults: true},
		"npm --prefix sub test":                     {dir: "sub", defaults: true},
		"yarn build":                                {defaults: true},
		"go run main.go other.go arg x.go":          {files: []string{"main.go", "other.go"}},
		"go -C sub run -tags x main.go":             {files: []string{"main.go"}, dir: "sub"},
		"go run ./cmd/x":                            {},
		"go build main.go":                          {},
		"go":                                        {},
		"deno run --config d.json x.ts y.ts":        {files: []string{"d.json"}, operand: "x.ts"},
		"deno test x.ts":                            {},
		"bun install":                               {defaults: true},
		"bun run x.ts":                              {operand: "x.ts", defaults: true},
		"java -cp a:b -jar x.jar y":                 {files: []string{"x.jar"}},
		"java Main.java arg":                        {files: []string{"Main.java"}},
		"java Main":                                 {},
		"jq -f x.jq data":                           {files: []string{"x.jq"}},
		"lua -e x y.lua":                            {operand: "y.lua"},
		"elixir -S mix run.exs":                     {operand: "run.exs"},
		"octave --path lib s.m":                     {operand: "s.m"},
		"gnuplot -e x=1 p.gp":                       {files: []string{"p.gp"}},
		"bc -l sum.bc":                              {files: []string{"sum.bc"}},
		"m4 in.m4":                                  {files: []string{"in.m4"}},
		"m4 -I inc -D X=1 a.m4 -s b.m4":             {files: []string{"a.m4", "b.m4"}},
		"dc -e 1 a b":                               {files: []string{"a", "b"}},
		"elvish -norc s.elv x":                      {operand: "s.elv"},
		"elvish -rc r.elv s.elv":                    {files: []string{"r.elv"}, operand: "s.elv"},
		"nu -e x s.nu":                              {operand: "s.nu"},
		"xonsh -D A=1 s.xsh":                        {operand: "s.xsh"},
		"elvish -c text":                            {},
		"ocaml -I lib a.ml":                         {operand: "a.ml"},
		"runghc -f ghc Main.hs":                     {operand: "Main.hs"},
		"php -d a=b x.php":                          {operand: "x.php"},
		"cargo run --manifest-path a/C.toml":        {files: []string{"a/C.toml"}},
		"env -i -u C A=b B=c sh -c x=y":             {cleared: true, env: []string{"A", "B"}, wrapped: "sh", rest: []string{"-c", "x=y"}},
		// no options after an operand
		"env -i A=b -u C sh -c x":               {cleared: true, env: []string{"A"}, wrapped: "-u", rest: []string{"C", "sh", "-c", "x"}},
		"env - A=b sh x":                        {cleared: true, env: []string{"A"}, wrapped: "sh", rest: []string{"x"}},
		"env -u PATH sh":                        {cleared: true, wrapped: "sh", rest: []string{}},
		"env --uns=PATH --ignore-env sh":        {cleared: true, wrapped: "sh", rest: []string{}},
		"env -C a --chd=b sh x":                 {dir: "b", wrapped: "sh", rest: []string{"x"}},
		"env --argv0=x sh":                      {unsure: true, wrapped: "sh", rest: []string{}},
		"env -ivx sh":                           {cleared: true, unsure: true, wrapped: "sh", rest: []string{}},
		"env -Ssh x":                            {wrapped: "sh", rest: []string{"x"}},
		"env -S $X x":                           {unsure: true, wrapped: "x", rest: []string{}},
		"env -C sub sh":                         {dir: "sub", wrapped: "sh", rest: []string{}},
		"env":                                   {},
		"env -S sh":                             {wrapped: "sh", rest: []string{}},
		"nice -n 5 make":                        {wrapped: "make", rest: []string{}},
		"nice -15 make x":                       {wrapped: "make", rest: []string{"x"}},
		"nice --adj 5 make x":                   {wrapped: "make", rest: []string{"x"}},
		"nice A=b make":                         {wrapped: "A=b", rest: []string{"make"}}, // only env takes assignments
		"timeout -k 1 5 sh x":                   {wrapped: "sh", rest: []string{"x"}},
		"timeout --preserve --sig=KILL 5 sh -x": {wrapped: "sh", rest: []string{"-x"}},
		"timeout 5 -k sh":                       {wrapped: "-k", rest: []string{"sh"}},
		"timeout --frob 5 sh":                   {unsure: true, wrapped: "sh", rest: []string{}},
		"nohup sh x":                            {wrapped: "sh", rest: []string{"x"}},
		"setsid -wf sh x":                       {wrapped: "sh", rest: []string{"x"}},
		"stdbuf -oL --err=0 sh x":               {wrapped: "sh", rest: []string{"x"}},
		"time -f %e -o out sh x":                {wrapped: "sh", rest: []string{"x"}},
		"ionice -c 3 -t sh x":                   {wrapped: "sh", rest: []string{"x"}},
		"ionice -p 1":                           {unsure: true, wrapped: "1", rest: []string{}},
		"chrt -f 10 sh x":                       {wrapped: "sh", rest: []string{"x"}},
		"chrt -i sh x":                          {unsure: true, wrapped: "x", rest: []string{}}, // new versions take no number here
		"timeout 5":                             {},
		"xargs -n 1 rm -f":                      {wrapped: "rm", rest: []string{"-f"}},
		"find . -name x -exec rm {} ;":          {wrapped: "rm"},
		"find . -name x":                        {},
		"busybox sh -c x":                       {wrapped: "sh", rest: []string{"-c", "x"}},
		"taskset 0x1 sh":                        {wrapped: "sh", rest: []string{}},
		"taskset -c 0,1 sh":                     {wrapped: "sh", rest: []string{}},
		"flock lock sh":                         {wrapped: "sh", rest: []string{}},
		"flock --timeout 5 lock sh":             {wrapped: "sh", rest: []string{}},
		"prlimit --nofile=64 -n sh x":           {wrapped: "sh", rest: []string{"x"}},
		"prlimit -o NOFILE --pid 1":             {},
		"prlimit --frob sh":                     {unsure: true, wrapped: "sh", rest: []string{}},
		"gosu nobody sh x":                      {wrapped: "sh", rest: []string{"x"}},
		"pkexec --user root sh x":               {wrapped: "sh", rest: []string{"x"}},
		"sudo -s sh x":                          {wrapped: "sh", rest: []string{"x"}},
		"sudo --user root A=b sh x":             {wrapped: "sh", rest: []string{"x"}, env: []string{"A"}},
		"nsenter -t 1 -m sh x":                  {wrapped: "sh", rest: []string{"x"}},
		"unshare --root=/r -r sh x":             {wrapped: "sh", rest: []string{"x"}},
		"bwrap --ro-bind / / --chdir /x sh y":   {wrapped: "sh", rest: []string{"y"}},
		"xargs --replace rm {}":                 {wrapped: "rm", rest: []string{"{}"}},
		"fakeroot make":                         {wrapped: "make", rest: []string{}},
		"fd -Hx rm":                             {wrapped: "rm"},
		"fd -e go -x rm":                        {wrapped: "rm"},
		"find . -name -exec -print":             {},
		"nu x.nu":                               {operand: "x.nu"},
		"xonsh -c code":                         {},
		"pwsh x.ps1":                            {operand: "x.ps1"},
		"pwsh -File x.ps1":                      {files: []string{"x.ps1"}},
		"jq -L lib -f x.jq data":                {files: []string{"x.jq"}},
	} {
		if diff := cmp.Diff(want, scanned(t, line), cmp.AllowUnexported(findings{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestRuleFor(t *testing.T) {
	for name, want := range map[string]string{
		"python3": "python", "/usr/bin/python3.11": "python", "pypy3": "pypy", "sqlite3": "sqlite", "lua5.4": "lua", "m4": "m4", "gawk": "awk",
		"GAWK": "", "pythonic": "", "": "", "3": "", "cat": "",
	} {
		r := ruleFor(name)
		if (r != nil) != (want != "") || want != "" && !slices.Contains(r.Names, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestRulesFor(t *testing.T) {
	for _, c := range []struct {
		names, same string
		want        string // the first name of each rule
	}{
		{"find bash", "", "find sh"},
		{"sh /usr/bin/python3", "", "sh python"},
		{"other /usr/bin/python3", "", "python"},
		{"sh dash bash", "sh dash", "sh"},
		{"cat cat", "perl perl5.36.0", "perl"},
		{"cat cat", "", ""},
		{"cat busybox", "busybox sh awk env", ""}, // the name it is called by says which program it is
		{"awk busybox", "busybox sh awk env", "awk"},
		{"busybox busybox", "busybox sh awk env", "busybox"},
		{"busybox bash", "sh bash", "busybox sh"}, // a name alone makes nothing a file of many programs
		{"find coreutils bash", "", "find busybox sh"},
	} {
		var got []string
		for _, r := range rulesFor(strings.Fields(c.names), strings.Fields(c.same)) {
			got = append(got, r.Names[0])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s (%s): %v, want %s", c.names, c.same, got, c.want)
		}
	}
}

// The table itself: names once, letters in one place, nothing that cannot work.
func TestRules(t *testing.T) {
	for _, r := range programs.Shipped().Bindings {
		if r.Wraps && (r.Script || !r.Live) || r.Script && r.Suffix != "" || len(r.Tries)+len(r.Within) > 0 && !r.Script ||
			r.Up && len(r.Defaults) == 0 ||
			r.Follow && (!r.Wraps || r.Inline != "") || r.Number && r.Skip != 1 {
			t.Errorf("%s: %+v", r.Names, r)
		}
	}
	for _, name := range strings.Fields("sh bash dash zsh python3 node perl ruby env xargs nice timeout busybox make awk sed") {
		if r := ruleFor(name); r == nil || !r.Live {
			t.Errorf("%s may be fed live", name)
		}
	}
}

// Scanning never fails and never makes names up.
func FuzzScan(f *testing.F) {
	f.Add("bash", "-euo\npipefail\nx.sh")
	f.Add("make", "-C\nsub\n-f\nx\n--")
	f.Add("go", "run\na.go")
	f.Add("env", "-i\nA=b\nsh")
	f.Add("env", "-S sh -x\nA=b\nsh")
	f.Add("node", "--frob\nx\n--ev\ny")
	f.Fuzz(func(t *testing.T, name, text string) {
		r := ruleFor(name)
		if r == nil {
			return
		}
		got := scan(r, strings.Split(text, "\n"))
		for _, s := range slices.Concat(got.files, got.maybe, got.rest, got.env, []string{got.operand, got.wrapped}) {
			if !strings.Contains(text, s) {
				t.Fatalf("%q in %q", s, text)
			}
		}
	})
}
