package process

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func scanned(t *testing.T, line string) findings {
	t.Helper()
	words := strings.Split(line, " ")
	r, ok := ruleFor(words[0])
	if !ok {
		t.Fatalf("no rule for %s", words[0])
	}
	return r.scan(words[1:])
}

func TestScan(t *testing.T) {
	for line, want := range map[string]findings{
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
		"php -d a=b x.php":                          {operand: "x.php"},
		"cargo run --manifest-path a/C.toml":        {files: []string{"a/C.toml"}},
		"env -i A=b -u C sh -c x":                   {wrapped: "sh"},
		"env -C sub sh":                             {dir: "sub", wrapped: "sh"},
		"env":                                       {},
		"env -S sh":                                 {},
		"nice -n 5 make":                            {wrapped: "make"},
		"timeout -k 1 5 sh x":                       {wrapped: "sh"},
		"timeout 5":                                 {},
		"xargs -n 1 rm -f":                          {wrapped: "rm"},
		"find . -name x -exec rm {} ;":              {wrapped: "rm"},
		"find . -name x":                            {},
		"busybox sh -c x":                           {wrapped: "sh"},
		"taskset 0x1 sh":                            {wrapped: "sh"},
		"flock lock sh":                             {wrapped: "sh"},
	} {
		if diff := cmp.Diff(want, scanned(t, line), cmp.AllowUnexported(findings{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestRuleFor(t *testing.T) {
	for name, want := range map[string]string{
		"python3": "python", "/usr/bin/python3.11": "python", "pypy3": "pypy", "sqlite3": "sqlite", "lua5.4": "lua", "m4": "m4", "gawk": "awk", "GAWK": "", "pythonic": "", "": "", "3": "", "cat": "",
	} {
		r, ok := ruleFor(name)
		if ok != (want != "") || want != "" && !strings.Contains(" "+r.names+" ", want) {
			t.Errorf("%s: %q", name, r.names)
		}
	}
	if r, _ := ruleFor("sh", "/usr/bin/python3"); !strings.HasPrefix(r.names, "sh ") {
		t.Error("the name it is called by comes first")
	}
	if r, ok := ruleFor("other", "/usr/bin/python3"); !ok || !strings.HasPrefix(r.names, "python") {
		t.Error("the real name counts as well")
	}
}

// The table itself: names once, letters in one place, nothing that cannot work.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules {
		for name := range strings.FieldsSeq(r.names) {
			if seen[name] {
				t.Errorf("%s stands twice", name)
			}
			seen[name] = true
		}
		letters := r.inline + r.file + r.dir + r.value + r.next + r.attached
		for i, c := range letters {
			if strings.ContainsRune(letters[i+1:], c) {
				t.Errorf("%s: -%c is two things", r.names, c)
			}
		}
		if r.wraps && (r.script || !r.live) || r.script && r.suffix != "" || len(r.tries)+len(r.within) > 0 && !r.script || r.up && len(r.defaults) == 0 {
			t.Errorf("%s: %+v", r.names, r)
		}
	}
	for _, name := range strings.Fields("sh bash dash zsh python3 node perl ruby env xargs nice timeout busybox make awk sed") {
		if r, ok := ruleFor(name); !ok || !r.live {
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
	f.Fuzz(func(t *testing.T, name, text string) {
		r, ok := ruleFor(name)
		if !ok {
			return
		}
		got := r.scan(strings.Split(text, "\n"))
		for _, s := range append(got.files, got.operand, got.wrapped) {
			if !strings.Contains(text, s) {
				t.Fatalf("%q in %q", s, text)
			}
		}
	})
}
