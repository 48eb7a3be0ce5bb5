package sandboxtest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/cell"
	"palyra/internal/sandbox"
)

// trustedLater: trusted programs that run afterwards do not execute what a program left behind.
// They are run here, and a canary tells.
func trustedLater(t *testing.T, b *bench) {
	homeTraps(t, b)
	check(t, os.Chmod(b.base, 0o777)) // the canaries are the owner's to make
	tried := traps
	if b.lacks(t, sealsPaths) {
		tried = traps[:1] // one is enough to show it
	}
	canaries := b.base + "/canary-"
	setting := make([]string, len(tried))
	for i, trap := range tried {
		dir := "project" + strconv.Itoa(i)
		b.dir(t, b.ws+"/"+dir)
		b.project(t, b.ws+"/"+dir)
		setting[i] = "(\ncd " + dir + " || exit\n" + strings.ReplaceAll(trap.script, "CANARY", canaries+strconv.Itoa(i)) + "\n)\n"
	}
	if !b.thorough(t) {
		setting = []string{strings.Join(setting, "")}
	}
	for _, script := range setting {
		b.run(t, order{argv: []string{"sh", "-c", script}, change: func(j *sandbox.Job) { j.Seals = b.Seals }})
	}
	for i, trap := range tried {
		b.trusted(t, b.ws+"/project"+strconv.Itoa(i))
		_, err := os.Stat(canaries + strconv.Itoa(i))
		if ran := err == nil; b.lacks(t, sealsPaths) && !ran {
			t.Errorf("%s: the tier is said not to seal, but nothing was run", trap.name)
		} else if ran && b.has(t, sealsPaths) {
			t.Errorf("%s: a trusted program ran what the sandbox left", trap.name)
		}
		if b.thorough(t) {
			b.springs(t, trap)
		}
	}
}

// homeTraps: none of what runs when somebody logs in can be written, whichever tier it is.
func homeTraps(t *testing.T, b *bench) {
	var all []denial
	for _, name := range strings.Fields(".bashrc .profile .bash_profile .zshrc .ssh/authorized_keys .config/autostart/x.desktop " +
		".local/bin/ls .gitconfig .config/git/config .npmrc .cargo/config.toml .vimrc") {
		// it need not exist
		all = append(all, denial{"write ~/" + name, "openw " + b.who.home + "/" + name, "EACCES|ENOENT|EPERM|EROFS", unshown})
	}
	for _, file := range strings.Fields("/etc/crontab /etc/profile /etc/ld.so.preload /etc/environment /etc/gitconfig /etc/bash.bashrc") {
		all = append(all,
			denial{"write " + file, "openw " + file, "", unshown},
			denial{"make " + file + " anew", "create " + file + b.mark, "", worksRoot})
	}
	for _, dir := range strings.Fields("/etc/cron.d /etc/profile.d /var/spool/cron /usr/local/bin /etc/systemd/system /etc/apt/apt.conf.d") {
		if _, err := os.Stat(dir); err == nil {
			all = append(all, denial{"make a file in " + dir, "create " + dir + "/" + b.mark, "", worksRoot})
		}
	}
	b.deny(t, all)
}

// trap is a way to have git run something. Each is sprung outside as well.
type trap struct{ name, script string }

var traps = []trap{
	{"a hook", `printf '#!/bin/sh\ntouch CANARY\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; cp .git/hooks/post-commit .git/hooks/post-index-change`},
	{"a monitor", `git config core.fsmonitor 'touch CANARY; false'`},
	{
		"a directory of hooks",
		`mkdir -p h && printf '#!/bin/sh\ntouch CANARY\n' > h/pre-commit && chmod +x h/pre-commit && git config core.hooksPath h`,
	},
	{"a filter", `git config filter.x.clean 'touch CANARY; cat' && echo '* filter=x' > .gitattributes`},
	{"an alias and a pager", `git config core.pager 'touch CANARY; cat' && git config diff.external 'touch CANARY; true'`},
	{
		"another repository in its place",
		`mv .git .git-was; cp -a .git-was .git; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch CANARY; false\n' > .git/config`,
	},
	{
		"a repository elsewhere",
		`cp -a .git plain/store && git -C plain config -f store/config core.fsmonitor 'touch CANARY; false'; rm -rf .git && echo 'gitdir: plain/store' > .git`,
	},
	{
		"shared parts elsewhere",
		`cp -a .git plain/common && git config -f plain/common/config core.fsmonitor 'touch CANARY; false' && echo "$PWD/plain/common" > .git/commondir`,
	},
	{
		"a configuration of the work tree",
		`printf '[core]\n\tfsmonitor = touch CANARY; false\n' > .git/config.worktree && git config extensions.worktreeConfig true`,
	},
	{"a repository below", `git init -q plain/dir && git -C plain/dir config core.fsmonitor 'touch CANARY; false'`},
	{
		"a bare repository below",
		`cp -a .git plain/dir/bare && cd plain/dir && mv bare/* . && git config -f config core.fsmonitor 'touch CANARY; false'; git config -f config core.bare false; git config -f config core.worktree .`,
	},
	{"an environment of the directory", `printf 'touch CANARY\n' > .envrc; printf 'touch CANARY\n' > plain/dir/.envrc`},
}

// trusted does what the owner does after a call: git, in the workspace and below, and loading what
// direnv would load.
func (b *bench) trusted(t *testing.T, dir string) {
	t.Helper()
	script := `git status; echo more >> file; git -c user.name=a -c user.email=a@example.org commit -qam more; git --paginate diff HEAD~1; (cd plain/dir && git status)
for f in .envrc plain/dir/.envrc; do test -e $f && . ./$f; done; true`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, b.who.credential(), time.Second
	cmd.Env = []string{"PATH=" + cell.SearchPath, "HOME=" + b.base, "GIT_CONFIG_NOSYSTEM=1"}
	_, _ = cmd.CombinedOutput() // git may well complain of what it finds
}

// springs is the control: without a sandbox the trap works.
func (b *bench) springs(t *testing.T, trap trap) {
	t.Helper()
	dir := b.base + "/control-" + random()
	b.dir(t, dir)
	defer func() { _ = os.RemoveAll(dir) }()
	b.project(t, dir)
	canary := dir + "/canary"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(trap.script, "CANARY", canary))
	cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, b.who.credential(), []string{"PATH=" + cell.SearchPath, "HOME=" + dir}
	out, _ := cmd.CombinedOutput()
	b.trusted(t, dir)
	if _, err := os.Stat(canary); err != nil {
		t.Errorf("control: %s does nothing outside either: %s", trap.name, out)
	}
}

// sealedResult: the result names what was taken away.
func sealedResult(t *testing.T, d *desk) {
	p := d.plan(t, nil, "sh", "-c", "mkdir -p new && echo evil > new/.envrc && echo kept > new/file")
	p.Seals = d.Seals
	if d.lacks(t, sealsPaths) {
		p.Seals = []string{".envrc"}
	}
	res := d.run(t, t.Context(), p)
	_, made := os.Lstat(d.ws + "/new/.envrc")
	if d.lacks(t, sealsPaths) {
		if res.Refusal == nil || made == nil {
			t.Errorf("a plan with seals is run where nothing seals: %+v", res)
		}
		return
	}
	if made == nil || len(res.Quarantined) != 1 || res.Quarantined[0] != "new/.envrc" || res.ExitCode != 0 {
		t.Errorf("quarantined %q, code %d, refusal %+v", res.Quarantined, res.ExitCode, res.Refusal)
	}
	if _, err := os.Lstat(d.ws + "/new/file"); err != nil {
		t.Error(err)
	}
}
