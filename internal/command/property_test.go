package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
)

// worse tells that an answer promises no more than another.
func worse(a, than palyra.Command) bool {
	return rank(a.Class) >= rank(than.Class) && (than.Understood || !a.Understood) && (a.RunsCode || !than.RunsCode)
}

// textOnly tells of words to which options mean nothing: what echo is given is text.
func textOnly(argv []string) bool {
	return slices.ContainsFunc(argv, func(w string) bool {
		return slices.Contains(strings.Fields("echo printf true false test [ : type expr"), w)
	})
}

// An option that no table knows never makes anything better, wherever it stands,
// and leaves nothing understood.
func TestUnknownOptionNeverHelps(t *testing.T) {
	for _, s := range samples(t) {
		if s.script != "" {
			continue
		}
		before := Analyse(s.input())
		for _, option := range []string{"--no-such-option", "--no-such=option"} {
			last := slices.Concat(s.argv, []string{option})
			after := Analyse(Input{Argv: last, Cwd: "/w", Workspace: "/w"})
			if !worse(after, before) {
				t.Errorf("%q is %s, with %s %s", s.argv, before.Class, option, after.Class)
			}
			first := slices.Insert(slices.Clone(s.argv), 1, option)
			after = Analyse(Input{Argv: first, Cwd: "/w", Workspace: "/w"})
			if after.Understood && !textOnly(first) {
				t.Errorf("%q is understood", first)
			}
		}
	}
}

func wrappers() [][]string {
	return [][]string{
		{"env"},
		{"env", "LC_ALL=C"},
		{"env", "-i"},
		{"env", "FOO=x"},
		{"nice"},
		{"nice", "-n", "5"},
		{"ionice", "-c", "3"},
		{"timeout", "5"},
		{"time", "-p"},
		{"nohup"},
		{"setsid"},
		{"stdbuf", "-oL"},
		{"xargs"},
		{"xargs", "-n", "1"},
		{"parallel"},
		{"sudo"},
		{"sudo", "-u", "x"},
		{"doas"},
		{"chroot", "/x"},
		{"unshare"},
		{"flock", "x"},
		{"busybox"},
		{"command"},
		{"exec"},
		{"strace"},
		{"nosuch"},
	}
}

// Wrapping never makes anything better, and the same program is still found.
func TestWrappingNeverHelps(t *testing.T) {
	for _, s := range samples(t) {
		if s.script != "" || len(s.argv) == 0 || s.argv[0][0] == '-' {
			continue
		}
		before := Analyse(s.input())
		for _, w := range wrappers() {
			after := Analyse(Input{Argv: slices.Concat(w, s.argv), Cwd: "/w", Workspace: "/w"})
			if w[0] != "nosuch" && !worse(after, before) {
				t.Errorf("%q is %s (%v), with %q %s (%v)", s.argv, before.Class, before.Understood, w, after.Class, after.Understood)
			}
			if w[0] == "nosuch" && after.Understood {
				t.Errorf("%q %q is understood", w, s.argv)
			}
		}
	}
}

// Joining lines never makes the worse of them better.
func TestLinesTakeTheWorst(t *testing.T) {
	var scripts []sample
	for _, s := range samples(t) {
		if s.script != "" && !strings.Contains(s.script, "#") && !strings.HasSuffix(s.script, `\`) {
			scripts = append(scripts, s)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SampledFrom(scripts).Draw(t, "a"), rapid.SampledFrom(scripts).Draw(t, "b")
		op := rapid.SampledFrom([]string{"; ", " && ", " || ", " | ", "\n"}).Draw(t, "op")
		both := Analyse(Input{Script: a.script + op + b.script, Cwd: "/w", Workspace: "/w"})
		if strings.Contains(strings.Join(both.Why, " "), "cannot be read") {
			return // `ls & && x` is nothing
		}
		parts := []sample{a, b}
		if strings.Contains(a.script, "cd ") { // b is then about another directory, where it may be less
			parts = parts[:1]
		}
		for _, s := range parts {
			if one := Analyse(s.input()); !worse(both, one) {
				t.Fatalf("%q is %s, %q is %s", s.script, one.Class, a.script+op+b.script, both.Class)
			}
		}
	})
}

// The same through a shell as without one, and never the better for it.
func TestShellSaysTheSame(t *testing.T) {
	for _, s := range samples(t) {
		if s.script == "" {
			continue
		}
		direct := Analyse(s.input())
		for _, shell := range [][]string{{"sh", "-c"}, {"bash", "-lc"}, {"dash", "-euc"}, {"env", "bash", "-c"}} {
			wrapped := Analyse(Input{Argv: append(slices.Clone(shell), s.script), Cwd: "/w", Workspace: "/w"})
			if wrapped.Class != direct.Class || wrapped.Understood != direct.Understood || !wrapped.Shell {
				t.Errorf("%q %q is %s, directly %s", shell, s.script, wrapped.Class, direct.Class)
			}
		}
	}
}

// Programs that can run programs, with words that make them: none may pass as
// something that needs no question.
func TestProgramsThatRunPrograms(t *testing.T) {
	lines := `find . -exec id ;
find . -execdir id ;
find . -ok id ;
find . -fprintf x y
awk BEGIN{system("id")}
gawk -f x
tar cf x y --to-command=id
tar cf x y --checkpoint-action=exec=id --checkpoint=1
tar -I id -cf x y
git -c core.fsmonitor=id status
git --exec-path=x status
git fetch --upload-pack=id
git ls-remote --upload-pack=id x
git difftool -x id
git filter-branch --tree-filter id
git bisect run id
git submodule foreach id
git rebase -x id
git rebase --exec id
git grep -Oid x
git archive --exec=id
git config alias.x !id
git nosuchalias
sed 1eid x
sed -i s/a/id/e x
sed wx y
rsync -e id a b
rsync --rsync-path=id a b
ssh -o ProxyCommand=id x
scp -S id a b
vim -c !id
vim -S x
less x
man -P id x
zip x y -T -TT id
gdb -ex !id
go run x
go generate
go test -exec id
go build -toolexec id
npm exec id
npm run evil
npx id
cargo run
python -c x
python x
node -e x
perl -e x
ruby -e x
php -r x
lua -e x
sqlite3 x
psql -c \!
docker run x
kubectl exec x
terraform apply
crontab x
at now
systemd-run id
nc -e id
socat x EXEC:id
openssl x -engine y
curl -K x
wget --use-askpass=id
tcpdump -z id
ed x
split --filter=id x
sort --compress-program=id x
xargs id
env id -S
env -S id
busybox sh
busybox awk BEGIN{system("id")}
sudo id
chroot x
nsenter x
flock x -c nosuch
watch nosuch
parallel id
script -c id
expect x
make -f /x
make SHELL=id
make --eval=x
cmake -P x
rg --pre id x
fd -x id
cpio -x
run-parts x
logrotate x
ip netns exec x id
tmux new id
screen id
emacs --eval x
ssh-keygen -D x
journalctl
systemctl x
dmesg
mount x y
mysql -e x
bash x
bash -c nosuch
zsh -c id
ksh x
dash x
jshell x
gem x
pip install x
bundle exec id
docker exec x id
strace id
ltrace id
perf x
time nosuch
nohup nosuch
setsid nosuch
stdbuf -o0 nosuch
timeout 1 nosuch
nice nosuch
ionice nosuch
taskset 1 id
start-stop-daemon x
xdg-open x
mutt x
mail x
pkexec id
runuser -u x id
unshare id
git help x
cmp -x
install -s a b --strip-program=id
diff --paginate a b
date -f x --nosuch
apt-get -o x
dpkg -i x
rpm -i x
entr id
direnv exec x id
watchexec id
7z x
ctags x
gcc -wrapper id
ld x
m4 x
dc x
bc x
gnuplot x
R x
octave x
tclsh x
erl x
ghc x
java x`
	for l := range strings.SplitSeq(lines, "\n") {
		got := Analyse(Input{Argv: strings.Fields(l), Cwd: "/w", Workspace: "/w"})
		if got.Understood && got.Class != palyra.CommandDestructive && got.Class != palyra.CommandWrite {
			t.Errorf("%s is %s and understood", l, got.Class)
		}
		if !got.RunsCode && got.Class != palyra.CommandDestructive {
			t.Errorf("%s is %s and said to run no code", l, got.Class)
		}
	}
}

// Whatever is typed, the answer keeps its promises.
func FuzzAnalyse(f *testing.F) {
	for _, s := range samples(f) {
		f.Add(strings.Join(s.argv, "\x00"), s.script)
	}
	f.Fuzz(func(t *testing.T, argv, script string) {
		in := Input{Script: script, Cwd: "/w/sub", Workspace: "/w"}
		if argv != "" {
			in.Argv = strings.Split(argv, "\x00")
		}
		got := Analyse(in)
		switch {
		case rank(got.Class) < 0:
			t.Errorf("class %q", got.Class)
		case !got.Understood && (!got.RunsCode || rank(got.Class) < rank(palyra.CommandUnknown)):
			t.Errorf("not understood, and yet %+v", got)
		case got.Class == palyra.CommandUnknown && got.Understood:
			t.Errorf("unknown and understood: %+v", got)
		case got.Understood && len(got.Programs) == 0 && !strings.Contains(script, "cd"):
			t.Errorf("nothing runs, and it is understood: %+v", got)
		case len(got.Why) > maxWhy || len(got.Outside) > maxOutside:
			t.Errorf("too much is said: %+v", got)
		}
		if d := cmp.Diff(got, Analyse(in)); d != "" {
			t.Errorf("twice is not the same:\n%s", d)
		}
		if len(in.Argv) > 0 && len(in.Argv) < 100 {
			wrapped := Analyse(Input{Argv: append([]string{"nice", "--"}, in.Argv...), Cwd: in.Cwd, Workspace: in.Workspace})
			if !worse(wrapped, got) {
				t.Errorf("wrapped it is better: %+v, before %+v", wrapped, got)
			}
		}
	})
}
