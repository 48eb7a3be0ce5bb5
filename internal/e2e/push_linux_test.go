package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// pushing starts the daemon with a key by which git is connected to a server, which has two repositories with a commit.
func pushing(t *testing.T) (*daemon, *sshServer) {
	t.Helper()
	d := newDaemon(t)
	d.ownWork()
	key := sshKey(t, t.TempDir(), "login")
	s := newSSHServer(t, key)
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", filepath.Join(s.dir, "begin")},
		{
			"-C", filepath.Join(s.dir, "begin"), "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty",
			"-m", "begin",
		},
		{"-C", filepath.Join(s.dir, "begin"), "push", "-q", s.repo, "main", "main:doomed"},
		{"init", "-q", "--bare", "-b", "main", filepath.Join(s.dir, "two.git")},
		{"-C", filepath.Join(s.dir, "begin"), "push", "-q", filepath.Join(s.dir, "two.git"), "main"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	d.guarded(world{dns: nameServer(t)}, append([]string{"PALYRA_EGRESS_ASK=off"}, shipped...)...)
	d.inWorkspace()
	d.mustVault("", "put", "login", "--from-file", key)
	d.mustVault("", "bind", "deploy", "--git-ssh", "--secret", "login", "--host", s.at, "--host-key", s.hostKey, "--user", s.user)
	return d, s
}

// refs are the refs of both repositories.
func (s *sshServer) refs(t testing.TB) string {
	t.Helper()
	var all []string
	for _, repo := range []string{"one.git", "two.git"} {
		out, _ := exec.Command("git", "-c", "safe.directory=*", "-C", filepath.Join(s.dir, repo), "for-each-ref").CombinedOutput()
		all = append(all, repo+"\n"+string(out))
	}
	return strings.Join(all, "")
}

// cloned is a line for a shell that clones the repository and makes a commit.
func (s *sshServer) cloned(subject string) string {
	return fmt.Sprintf(`cd $TMPDIR && git clone -q %s one && cd one && git config user.name x && git config user.email x@example.com &&
		git commit -q --allow-empty -m '%s' && `, s.url(), subject)
}

// git is connected to a repository by Palyra, once that was asked about, and pushes what was shown.
func TestGitIsConnected(t *testing.T) {
	t.Parallel()
	d, s := pushing(t)
	out, all := d.answering(d.using([]string{"deploy"}, s.cloned("first")+"git push -q origin HEAD:main && git ls-remote origin"), yes)
	if !strings.Contains(out.Stdout, "refs/heads/main") || s.commits(t) != "first\nbegin\n" {
		t.Fatalf("%+v\n%s\n%s", out, s.log, d.log)
	}
	var about []string
	for _, a := range all {
		if a.Plan.Tool != "palyra.git.remote" {
			t.Errorf("asked is about %s: %s", a.Plan.Tool, a.Prompt.Summary)
		}
		about = append(about, a.Prompt.Summary)
	}
	if len(about) != 4 || !strings.Contains(about[0], "reads the repository") || !strings.Contains(about[1], "logs in") ||
		!strings.Contains(about[2], "pushes the branch main to "+s.user+"@"+s.at+":"+s.repo) {
		t.Errorf("asked is about %q", about)
	}
	shown := strings.Join(all[2].Prompt.Notes, "\n")
	for _, want := range []string{"refs/heads/main goes forward", "commit: first", "SHA256:", "as " + s.user} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown:\n%s", want, shown)
		}
	}
	made := d.made("ssh_login")
	if len(made) != 3 || made[0]["binding"] != "deploy" || made[0]["for"] != s.at || made[0]["call_id"] != string(out.CallID) ||
		!strings.HasPrefix(made[1]["shown"].(string), "git-receive-pack ") {
		t.Errorf("on record are %v", made)
	}
}

// A no, before or after the server was reached, leaves the server as it was.
func TestPushesThatAreDenied(t *testing.T) {
	t.Parallel()
	d, s := pushing(t)
	before, using := s.refs(t), "deploy"
	for denied := range 3 {
		n := 0
		out, _ := d.answering(d.using([]string{using}, s.cloned(fmt.Sprint("first ", denied))+"git push -q origin HEAD:main"),
			func(a palyra.Approval) client.DecideRequest {
				if n++; n == denied+1 {
					return client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}
				}
				return yes(a)
			})
		if out.ExitCode == 0 || s.refs(t) != before {
			t.Errorf("no. %d denied: %+v\n%s", denied, out, s.refs(t))
		}
		name := fmt.Sprint("deploy", denied) // what is denied is not asked again for a while
		d.mustVault("", "bind", name, "--git-ssh", "--secret", "login", "--host", s.at, "--host-key", s.hostKey, "--user", s.user)
		using = name
	}
}

// pushLease answers for more connections to the repository and more pushes to its branch, as far as that is offered.
func pushLease(uses int64) func(palyra.Approval) client.DecideRequest {
	return func(a palyra.Approval) client.DecideRequest {
		r := yes(a)
		for _, o := range a.Prompt.Options {
			if o.Name == palyra.WidenRemote || o.Name == palyra.WidenPush {
				r.Scope, r.TTL, r.Widen, r.Uses = palyra.ScopeTimeboxed, time.Hour, o.Name, uses
			}
		}
		return r
	}
}

// A lease covers pushes to the one branch of the one repository that lose nothing, in the one session, and nothing that is
// near it.
func TestPushesUnderALease(t *testing.T) {
	t.Parallel()
	d, s := pushing(t)
	push := func(line string) client.CallRequest { return d.using([]string{"deploy"}, line) }
	if out, all := d.answering(push(s.cloned("one")+"git push -q origin HEAD:main"), pushLease(500)); out.ExitCode != 0 || len(all) != 2 {
		t.Fatalf("%d questions: %+v\n%s", len(all), out, d.log)
	}
	if out, all := d.answering(push(s.cloned("two")+"git push -q origin HEAD:main"), yes); out.ExitCode != 0 || len(all) != 0 ||
		!strings.HasPrefix(s.commits(t), "two\none\n") {
		t.Fatalf("%d questions: %+v\n%s", len(all), out, s.commits(t))
	}
	before := s.refs(t)
	no := func(a palyra.Approval) client.DecideRequest {
		if a.Plan.Tool != "palyra.git.remote" { // the program may run: what it does is what counts
			return yes(a)
		}
		return client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}
	}
	two := strings.Replace(s.url(), "one.git", "two.git", 1)
	for what, line := range map[string]string{
		"a force":                 `git reset -q --hard HEAD~2 && git commit -q --allow-empty -m lost && git push -q --force origin HEAD:main`,
		"a force by a plus":       `git reset -q --hard HEAD~2 && git push -q origin +HEAD:main`,
		"a force with a lease":    `git reset -q --hard HEAD~2 && git push -q --force-with-lease origin HEAD:main`,
		"a deletion":              `git push -q origin :doomed`,
		"a deletion of it":        `git push -q --delete origin main`,
		"another branch":          `git push -q origin HEAD:doomed`,
		"a new branch":            `git push -q origin HEAD:fresh`,
		"a tag":                   `git tag v1 && git push -q origin v1`,
		"two at once":             `git push -q origin HEAD:main HEAD:doomed`,
		"everything":              `git push -q --mirror origin`,
		"a note":                  `git notes add -m x && git push -q origin refs/notes/commits`,
		"another repository":      `git push -q ` + two + ` HEAD:main`,
		"another URL of the name": `git remote set-url origin ` + two + ` && git push -q origin HEAD:main`,
		"a pushurl":               `git config remote.origin.pushurl ` + two + ` && git push -q origin HEAD:main`,
		"an insteadOf":            `git config url.` + two + `.pushInsteadOf ` + s.url() + ` && git push -q origin HEAD:main`,
		"another user":            `git push -q ` + strings.Replace(s.url(), s.user+"@", "nobody@", 1) + ` HEAD:main`,
		"another program there":   `git push -q --receive-pack='git-receive-pack; touch ` + s.dir + `/owned;' origin HEAD:main`,
		"a command there":         `/run/palyra/bin/palyra-sign ssh -p ` + s.port + ` ` + s.user + `@bound.example "touch ` + s.dir + `/owned"`,
		"a shell there":           `/run/palyra/bin/palyra-sign ssh -p ` + s.port + ` ` + s.user + `@bound.example`,
		"a path with more":        `/run/palyra/bin/palyra-sign ssh -p ` + s.port + ` ` + s.user + `@bound.example "git-receive-pack '` + s.repo + `'; touch '` + s.dir + `/owned'"`,
		"ssh itself":              `ssh -o StrictHostKeyChecking=no -p ` + s.port + ` ` + s.user + `@bound.example true`,
		"git's own ssh":           `GIT_SSH_COMMAND=ssh git push -q origin HEAD:main`,
		"a remote helper":         `git -c protocol.ext.allow=always push -q "ext::ssh -p ` + s.port + ` ` + s.user + `@bound.example %S ` + s.repo + `" HEAD:main`,
		"an option":               `git push -q -o ci.skip origin HEAD:main`,
		"a replaced history":      `old=$(git rev-parse HEAD~1) && git reset -q --hard HEAD~2 && git commit -q --allow-empty -m lost && git replace --graft HEAD $old && git push -q origin +HEAD:main`,
	} {
		out, all := d.answering(push(s.cloned("three")+line), no)
		if out.ExitCode == 0 || out.Outcome != palyra.OutcomeFinished {
			t.Errorf("%s: %+v", what, out)
		}
		if now := s.refs(t); now != before {
			t.Fatalf("%s: the server has %s", what, now)
		}
		for _, a := range all {
			if a.Plan.Tool == "palyra.git.remote" && strings.Contains(a.Prompt.Summary, "MAY BE LOST") != a.Need.Fresh {
				t.Errorf("%s: asked is about %+v", what, a.Prompt)
			}
		}
	}
	if out, _ := exec.Command("ls", filepath.Join(s.dir, "owned")).CombinedOutput(); !strings.Contains(string(out), "No such file") {
		t.Errorf("%s", out)
	}
	other := push(s.cloned("four") + "git push -q origin HEAD:main")
	other.Session = "another"
	if out, all := d.answering(other, no); out.ExitCode == 0 || len(all) != 1 || s.refs(t) != before {
		t.Errorf("another session: %d questions, %+v", len(all), out)
	}
	d.mustVault("", "bind", "second", "--git-ssh", "--secret", "login", "--host", s.at, "--host-key", s.hostKey, "--user", s.user)
	out, all := d.answering(d.using([]string{"second"}, s.cloned("five")+"git push -q origin HEAD:main"), no)
	if out.ExitCode == 0 || len(all) != 1 {
		t.Errorf("another binding: %d questions, %+v", len(all), out)
	}
	leases, err := d.client(client.OperatorDoor).Leases(t.Context(), client.LeaseFilter{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(leases.Leases, func(l palyra.Lease) bool { return l.Terms.Branch == "main" })
	if i < 0 || leases.Leases[i].Terms.Remote != s.user+"@"+s.at+":"+s.repo || leases.Leases[i].Terms.HostKey == "" {
		t.Fatalf("leases are %+v", leases)
	}
	if _, err := d.client(client.OperatorDoor).RevokeLease(t.Context(), leases.Leases[i].ID); err != nil {
		t.Fatal(err)
	}
	out, all = d.answering(push(s.cloned("six")+"git push -q origin HEAD:main"), no)
	if out.ExitCode == 0 || len(all) != 1 || s.refs(t) != before {
		t.Errorf("after it was revoked: %d questions, %+v", len(all), out)
	}
}
