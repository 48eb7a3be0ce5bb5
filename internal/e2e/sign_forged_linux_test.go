package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// bothKeys starts the daemon with a key that logs in, in a workspace that is a repository, for one that signs.
func bothKeys(t *testing.T) (*daemon, *sshServer) {
	t.Helper()
	d, s, _ := sshBound(t)
	d.inWorkspace()
	d.signedRepository()
	return d, s
}

// What programs in a room try with keys that are lent to them, beyond what those are for: nothing is signed.
func TestLentKeysSignNothingElse(t *testing.T) {
	t.Parallel()
	d, s := bothKeys(t)
	d.signingKey("ssh")
	d.put("data", "pay Mallory\n")
	const sign = "/run/palyra/bin/palyra-sign"
	for what, line := range map[string]string{
		"ssh-keygen, any text":       `ssh-add -L | head -1 > $TMPDIR/k.pub; ssh-keygen -Y sign -n file -f $TMPDIR/k.pub data`,
		"ssh-keygen, for git":        `ssh-add -L | head -1 > $TMPDIR/k.pub; ssh-keygen -Y sign -n git -f $TMPDIR/k.pub data`,
		"another namespace":          `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; ` + sign + ` -Y sign -n file -f $TMPDIR/k.pub data`,
		"any text":                   `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; ` + sign + ` -Y sign -n git -f $TMPDIR/k.pub data`,
		"a hash":                     `git config user.signingkey | sed s/key::// > $TMPDIR/k.pub; git rev-parse HEAD > h; ` + sign + ` -Y sign -n git -f $TMPDIR/k.pub h`,
		"as gpg":                     sign + ` --status-fd=2 -bsau 0123456789ABCDEF0123456789ABCDEF01234567 < data`,
		"another key":                `ssh-keygen -q -t ed25519 -N "" -f $TMPDIR/own; git cat-file commit HEAD > c; ` + sign + ` -Y sign -n git -f $TMPDIR/own.pub c`,
		"a key to add":               `ssh-keygen -q -t ed25519 -N "" -f $TMPDIR/own; ssh-add $TMPDIR/own`,
		"keys to remove":             `ssh-add -D`,
		"an agent to lock":           `echo x | SSH_ASKPASS_REQUIRE=force SSH_ASKPASS=/bin/cat ssh-add -x`,
		"another user":               fmt.Sprintf(`ssh -p %s nobody@bound.example echo in`, s.port),
		"an agent that is forwarded": fmt.Sprintf(`ssh -A -p %[1]s %[2]s@bound.example "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p %[1]s %[2]s@127.0.0.1 echo forwarded" | grep forwarded`, s.port, s.user),
	} {
		out, all := d.answering(d.using([]string{"deploy", "commits"}, line), yes)
		if out.ExitCode == 0 || out.Outcome != palyra.OutcomeFinished {
			t.Errorf("%s: %+v", what, out)
		}
		if asked := ofSignatures(all); len(asked) > 0 {
			t.Errorf("%s: people are asked: %+v", what, asked[0].Prompt)
		}
	}
	if made := append(d.made("commit"), d.made("tag")...); len(made) != 0 {
		t.Errorf("signed is %v", made)
	}
	if made := d.made("ssh_login"); len(made) != 1 { // that on the way to which an agent was forwarded
		t.Errorf("logged in is %v", made)
	}
	no := func(a palyra.Approval) client.DecideRequest {
		if a.Plan.Tool == "palyra.sign" {
			return client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}
		}
		return yes(a)
	}
	if out, _ := d.answering(d.using([]string{"commits"}, `git commit -q --allow-empty -S -m refused`), no); out.ExitCode == 0 {
		t.Errorf("a no: %+v", out)
	}
	if made := d.made("commit"); len(made) != 0 {
		t.Errorf("signed is %v", made)
	}
}

// A lease for commits on a branch saves questions, as many as it has uses, and none about tags or other branches.
func TestCommitsUnderALease(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(unlimited...)
	d.inWorkspace()
	d.signedRepository()
	good := d.signingKey("ssh").good
	lease := func(a palyra.Approval) client.DecideRequest {
		r := yes(a)
		if a.Plan.Tool == "palyra.sign" && strings.Contains(a.Prompt.Covers, "branch") {
			r.Scope, r.TTL, r.Widen, r.Uses = palyra.ScopeTimeboxed, 2*time.Hour, palyra.WidenBranch, 3
		}
		return r
	}
	out, all := d.answering(d.using([]string{"commits"},
		`for i in 1 2 3; do git commit -q --allow-empty -S -m "commit $i" || exit 1; done; git tag -s v1 -m one && git switch -q -c other &&
		git commit -q --allow-empty -S -m elsewhere`), lease)
	if out.ExitCode != 0 {
		t.Fatalf("%+v\n%s", out, d.log)
	}
	var about []string
	for _, a := range ofSignatures(all) {
		about = append(about, a.Prompt.Summary)
	}
	if len(about) != 3 || !strings.Contains(about[0], "commit 1") || !strings.Contains(about[1], `tag "v1"`) || !strings.Contains(about[2], "elsewhere") {
		t.Errorf("asked is about %q", about)
	}
	if made := d.made("commit"); len(made) != 4 {
		t.Errorf("signed are %v", made)
	}
	if said, err := d.onHost(good, "verify-commit", "main", "main~1", "main~2", "other"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
